"""Find a Dora grid, list its experiments, and submit it to Slurm.

A grid is a module `PACKAGE.grids.NAME` with an `explorer`, as Dora defines it.
"""

import importlib
import pkgutil
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from dora.conf import SubmitRules
from dora.explore import Explorer, Herd, Launcher
from dora.grid import RunGridArgs, run_grid
from dora.shep import Shepherd
from dora.xp import XP

from solfa.config import nearest
from solfa.errors import ConfigError
from solfa.experiments.dora_adapter import supply_jobs
from solfa.experiments.exits import sentences
from solfa.files.whole_files import expect_real_folder
from solfa.solvers.watchers.protocol import metric_words
from solfa.xp.layout import log_path
from solfa.xp.record import Epoch, read_experiment

if TYPE_CHECKING:
    from solfa.experiments.compose.experiment_main import ExperimentMain


@dataclass(frozen=True)
class GridExperiment:
    """One experiment of a grid."""

    xp: XP
    name: str
    """What sets it apart from the others."""

    @property
    def epochs(self) -> int:
        """How many epochs it should train."""
        return int(self.xp.cfg.optim.epochs)

    def is_done(self) -> bool:
        """Say whether all its epochs are in its history."""
        return len(read_experiment(self.xp.folder).history) >= self.epochs


def list_grids(package: str) -> list[str]:
    """Name the grids of a package."""
    module = _import(f"{package}.grids", f"package {package}")
    found = pkgutil.walk_packages(module.__path__, f"{module.__name__}.")
    names = [info.name.removeprefix(f"{module.__name__}.") for info in found if not info.ispkg]
    return sorted(name for name in names if not name.rpartition(".")[2].startswith("_"))


def find_explorer(package: str, name: str) -> Explorer:
    """Find a grid by its name."""
    known = list_grids(package)
    if name not in known:
        listed = ", ".join(known) or "none"
        raise ConfigError(f"grid {name}: not found, {package}.grids has {listed}{nearest(name, known)}")
    explorer = getattr(_import(f"{package}.grids.{name}", f"grid {name}"), "explorer", None)
    if not isinstance(explorer, Explorer):
        raise ConfigError(
            f"grid {name}: expected {package}.grids.{name} to define `explorer`, a function decorated with @Explorer"
        )
    return explorer


def _import(module: str, what: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not module.startswith(str(error.name)):
            raise
        raise ConfigError(f"{what}: there is no module {error.name!r}; set `package` to one that has grids") from None


def list_experiments(main: "ExperimentMain", explorer: Explorer) -> list[GridExperiment]:
    """Compose all experiments of a grid, each once, in order."""
    herd = Herd()
    explorer(Launcher(Shepherd(main), main.get_slurm_config(), herd))
    xps = [sheep.xp for sheep in herd.sheeps.values()]
    names = main.get_names(xps)[0] if xps else []
    return [GridExperiment(xp, name) for xp, name in zip(xps, names, strict=True)]


def link_experiments(main: "ExperimentMain", grid: str, experiments: Sequence[GridExperiment]) -> Path:
    """Make the grid's folder with a link to each of its experiments, as Dora does."""
    folder = main.grid_dir(grid)
    expect_real_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {experiment.xp.sig: experiment.xp.folder for experiment in experiments}
    for link in folder.iterdir():
        if link.is_symlink() and link.name not in wanted:
            link.unlink()
    for signature, target in wanted.items():
        if not (folder / signature).is_symlink():
            (folder / signature).symlink_to(target)
    return folder


def check_slurm(what: str, instead: str) -> None:
    """Refuse to continue without Slurm, and say what to do instead."""
    if shutil.which("sbatch") is None:
        raise ConfigError(f"{what}: this machine has no Slurm (sbatch), nothing was touched; {instead}")


def supply_dora_jobs() -> None:
    """Make `dora grid` and `dora launch` refuse a machine without Slurm, and `dora info` follow a run on this one."""

    def check_first(grid: str | None) -> None:
        with sentences():
            if grid is None:
                check_slurm("dora launch", "`dora run` runs the same experiment here")
            else:
                check_slurm(f"grid {grid}", f"`solfa grid {grid} --local` runs it here")

    supply_jobs(check_first, log_path)


def submit(main: "ExperimentMain", explorer: Explorer, grid: str, *, clear: bool) -> None:
    """Submit a grid to Slurm through Dora, and follow it."""
    run_grid(main, explorer, grid, SubmitRules(retry=True), main.get_slurm_config(), RunGridArgs(clear=clear))


def last_metrics(history: Sequence[Epoch]) -> str:
    """Format the latest metrics, validation first."""
    if not history:
        return ""
    order = ["valid", *(stage for stage in history[-1] if stage not in ("valid", "generate"))]
    known = {stage: {k: v for k, v in history[-1].get(stage, {}).items() if v is not None} for stage in order}
    return " · ".join(" ".join((stage, *metric_words(metrics, 3))) for stage, metrics in known.items() if metrics)
