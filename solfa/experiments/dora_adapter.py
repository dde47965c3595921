"""Every part of Dora that may change without notice: what we subclass, replace, or call by a private name.

The rest of Solfa uses `DoraMain`, whose methods have names of their own, and Dora's public names (`XP`, `Explorer`,
`Launcher`). A test checks what is used here against the installed Dora and names what changed.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from dora.conf import DoraConfig
from dora.hydra import HydraMain, _simplify_argv
from dora.main import DecoratedMain
from dora.xp import XP, get_xp, is_xp
from omegaconf import DictConfig

Delta = list[tuple[str, Any]]
"""Dotted keys and values that differ from what the files say."""


class DoraMain(HydraMain):
    """Dora's entry point for experiments that Hydra composes; public methods answer what Dora asks of it."""

    def __init__(self, run: Callable[[XP], None], config_path: str) -> None:
        """Wrap `run`, the function that runs an experiment; `config_path` is relative to its module."""
        super().__init__(run, config_name="config", config_path=config_path, version_base="1.3")

    # What a subclass provides.

    @property
    def dora_dir(self) -> Path:
        """Where experiments are kept."""
        raise NotImplementedError

    def group_names(self) -> list[str]:
        """List the config groups that offer a choice."""
        raise NotImplementedError

    def first_overrides(self) -> list[str]:
        """List the overrides that come before the user's own."""
        raise NotImplementedError

    def difference(self, base: DictConfig, composed: DictConfig) -> Delta:
        """List how a composed experiment differs from its files."""
        raise NotImplementedError

    def run_entered(self, xp: XP | None) -> None:
        """Run the experiment that Dora has entered; None if Dora was started without one."""
        raise NotImplementedError

    # What subclasses and the rest of Solfa call.

    def compose_base(self, argv: Sequence[str]) -> tuple[DictConfig, Delta]:
        """Compose only the files that `argv` chooses, and return them with the choices."""
        base, chosen = self._get_base_config(list(argv))
        return base, list(chosen)

    def compose_values(self, argv: Sequence[str]) -> DictConfig:
        """Compose the files with all overrides in `argv`."""
        return self._get_config(list(argv))

    def make_xp(self, argv: Sequence[str], composed: DictConfig, delta: Delta) -> XP:
        """Make an experiment; its signature comes from `delta`."""
        return XP(dora=self.dora, cfg=composed, argv=list(argv), delta=delta)

    def grid_dir(self, grid: str) -> Path:
        """Say where Dora links the experiments of a grid."""
        folder: Path = self.dora.dir / self.dora._grids / grid
        return folder

    # The methods through which Dora's class asks.

    def _get_dora(self) -> DoraConfig:
        dora = super()._get_dora()
        dora.dir = self.dora_dir
        return dora

    def _main(self) -> None:
        # Hydra's own `main` would compose everything again and read the folder's path as an override, which fails if
        # the path contains a bracket or a comma.
        self.run_entered(get_xp() if is_xp() else None)

    def _get_config_groups(self) -> list[str]:
        return self.group_names()

    def _get_config_noinit(self, overrides: Sequence[str] = ()) -> DictConfig:
        return super()._get_config_noinit([*self.first_overrides(), *overrides])

    def _get_delta(self, init: DictConfig, other: DictConfig) -> Delta:
        return self.difference(init, other)


def last_of_each_key(argv: Sequence[str]) -> list[str]:
    """Drop overrides that a later one replaces, as Dora does before it computes a signature."""
    return list(_simplify_argv(argv))


def supply_run(start_workers: Callable[..., None], before_clear: Callable[[Any, list[str]], None]) -> None:
    """Make `dora run -d` call `start_workers(main, argv, num_workers)`, and run a check before `--clear` deletes."""
    import dora.run

    clear_job = dora.run.check_job_and_clear

    @wraps(clear_job)
    def check_job_and_clear(argv: list[str], main: DecoratedMain, clear: bool = False) -> None:
        if clear:
            before_clear(main, argv)
        clear_job(argv, main, clear)

    dora.run.start_ddp_workers = start_workers  # type: ignore[attr-defined]
    dora.run.check_job_and_clear = check_job_and_clear


def supply_jobs(before_submitting: Callable[[str | None], None], own_log: Callable[[Path], Path]) -> None:
    """Make `dora grid` and `dora launch` check first, and `dora info` find the log of a run that is no job of Slurm.

    `before_submitting` gets the name of the grid, None for a single experiment; `own_log` an experiment's folder.
    """
    import dora.grid
    import dora.launch
    from dora.shep import Sheep, Shepherd

    run_grid, job_log = dora.grid.run_grid, vars(Sheep)["log"].fget

    @wraps(run_grid)
    def checked_grid(main: DecoratedMain, explorer: Any, grid_name: str, *more: Any, **named: Any) -> Any:
        settings = [value for value in (*more, *named.values()) if isinstance(value, dora.grid.RunGridArgs)]
        if not any(value.dry_run for value in settings):
            before_submitting(grid_name)
        return run_grid(main, explorer, grid_name, *more, **named)

    def checked_shepherd(*arguments: Any, **named: Any) -> Shepherd:
        before_submitting(None)
        return Shepherd(*arguments, **named)

    def log(self: Sheep) -> Path:
        return job_log(self) or own_log(self.xp.folder)

    dora.grid.run_grid = checked_grid
    dora.launch.Shepherd = checked_shepherd  # type: ignore[assignment, attr-defined]
    Sheep.log = property(log)  # type: ignore[assignment, method-assign]
