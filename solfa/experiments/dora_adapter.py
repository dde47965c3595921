"""Everything of Dora that is not promised to stay: what is subclassed, replaced, or called by a private name.

The rest of Solfa talks to `DoraMain`, whose methods have names of their own, and to the public names of Dora (`XP`,
`Explorer`, `Launcher`). A test compares what is used here with the Dora that is installed, and names what changed.
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
"""Dotted keys and their values, as far as they differ from what the files say."""


class DoraMain(HydraMain):
    """Dora's entry point for experiments that Hydra composes; what Dora asks of it is answered by public methods."""

    def __init__(self, run: Callable[[XP], None], config_path: str) -> None:
        """Take what runs an experiment, and the folder of the files that compose it, beside the module of `run`."""
        super().__init__(run, config_name="config", config_path=config_path, version_base="1.3")

    # What a subclass says.

    @property
    def dora_dir(self) -> Path:
        """Where experiments are kept."""
        raise NotImplementedError

    def group_names(self) -> list[str]:
        """Name the groups of files of which one can be chosen."""
        raise NotImplementedError

    def first_overrides(self) -> list[str]:
        """List what is composed before what a user gives."""
        raise NotImplementedError

    def difference(self, base: DictConfig, composed: DictConfig) -> Delta:
        """List what tells a composed experiment from its files."""
        raise NotImplementedError

    def run_entered(self, xp: XP | None) -> None:
        """Run the experiment that Dora has entered; None if Dora was started without one."""
        raise NotImplementedError

    # What a subclass, and the rest of Solfa, calls.

    def compose_base(self, argv: Sequence[str]) -> tuple[DictConfig, Delta]:
        """Compose the files alone that `argv` chooses, and say which ones it chose."""
        base, chosen = self._get_base_config(list(argv))
        return base, list(chosen)

    def compose_values(self, argv: Sequence[str]) -> DictConfig:
        """Compose everything that `argv` says."""
        return self._get_config(list(argv))

    def make_xp(self, argv: Sequence[str], composed: DictConfig, delta: Delta) -> XP:
        """Make an experiment, which gets its signature from what differs."""
        return XP(dora=self.dora, cfg=composed, argv=list(argv), delta=delta)

    def grid_dir(self, grid: str) -> Path:
        """Say where Dora links the experiments of a grid."""
        folder: Path = self.dora.dir / self.dora._grids / grid
        return folder

    # The places where Dora's class asks for something.

    def _get_dora(self) -> DoraConfig:
        dora = super()._get_dora()
        dora.dir = self.dora_dir
        return dora

    def _main(self) -> None:
        # Hydra's own `main` would compose everything once more, and read the folder's path as an override, which
        # fails for one with a bracket or a comma in it.
        self.run_entered(get_xp() if is_xp() else None)

    def _get_config_groups(self) -> list[str]:
        return self.group_names()

    def _get_config_noinit(self, overrides: Sequence[str] = ()) -> DictConfig:
        return super()._get_config_noinit([*self.first_overrides(), *overrides])

    def _get_delta(self, init: DictConfig, other: DictConfig) -> Delta:
        return self.difference(init, other)


def last_of_each_key(argv: Sequence[str]) -> list[str]:
    """Leave out overrides that a later one of the same key replaces, as Dora does before it makes a signature."""
    return list(_simplify_argv(argv))


def supply_run(start_workers: Callable[..., None], before_clear: Callable[[Any, list[str]], None]) -> None:
    """Let `dora run -d` call `start_workers(main, argv, num_workers)`, and ask before `--clear` deletes anything."""
    import dora.run

    clear_job = dora.run.check_job_and_clear

    @wraps(clear_job)
    def check_job_and_clear(argv: list[str], main: DecoratedMain, clear: bool = False) -> None:
        if clear:
            before_clear(main, argv)
        clear_job(argv, main, clear)

    dora.run.start_ddp_workers = start_workers  # type: ignore[attr-defined]
    dora.run.check_job_and_clear = check_job_and_clear
