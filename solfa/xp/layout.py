"""The folder of an experiment: what each file in it is called. No other module spells these names.

xps/SIG/
  .argv.json            the overrides, as Dora wrote them; with it the folder is an experiment's
  config.json           the settings that it runs with, once it ran
  history.json          one entry per epoch: {stage: {metric: number}}
  checkpoint.pt         the last state, to go on from
  checkpoint_0012.pt    a copy of the state after epoch 12 (`checkpoint.save_every`, `checkpoint.keep_last`)
  best.pt               the weights of the best epoch, and nothing else: what generating and fine-tuning need
  valid.json            what a stage found that was run alone (`execute_only`): evaluate.json, generate.json
  solver.log.0          the log of the first process; the others have numbers of their own
  worker_1.log          what the other processes of one machine print; the first prints to the terminal
  output.log            what it prints as one of the experiments of a grid on this machine
  samples/12/           what it sounded like after epoch 12; samples/index.html shows all epochs
  tensorboard/          curves; wandb/, where that is asked for, is laid out by the package of that name
  .prepared.json        which datasets its first process made ready, for the others to wait for
  .lock                 who runs it
"""

import re
from pathlib import Path

ARGV = ".argv.json"
CONFIG = "config.json"
HISTORY = "history.json"
LAST = "checkpoint.pt"
BEST = "best.pt"
OUTPUT = "output.log"
SAMPLES = "samples"
SAMPLES_PAGE = "index.html"
TENSORBOARD = "tensorboard"
PREPARED = ".prepared.json"
LOCK = ".lock"

_COPY = re.compile(r"checkpoint_(\d+)\.pt")


def log_path(folder: Path, rank: int = 0) -> Path:
    """Name the log of a process."""
    return folder / f"solver.log.{rank}"


def log_paths(folder: Path) -> list[Path]:
    """List the logs of all processes."""
    return sorted(folder.glob("solver.log.*"))


def worker_log_path(folder: Path, rank: int) -> Path:
    """Name what a process prints whose output nobody sees."""
    return folder / f"worker_{rank}.log"


def stage_path(folder: Path, stage: str) -> Path:
    """Name what a stage found that was run alone."""
    return folder / f"{stage}.json"


def copy_path(folder: Path, epoch: int) -> Path:
    """Name the copy of an epoch's state."""
    return folder / f"checkpoint_{epoch:04d}.pt"


def copied_epochs(folder: Path) -> list[int]:
    """List the epochs of which there is a copy."""
    matches = (_COPY.fullmatch(path.name) for path in folder.glob("checkpoint_*.pt"))
    return sorted(int(match[1]) for match in matches if match)


def state_paths(folder: Path) -> list[Path]:
    """List the files that hold weights: the last state, its copies, and the best epoch."""
    return sorted([*folder.glob(BEST), *folder.glob("checkpoint*.pt")])


def leftovers(folder: Path) -> list[Path]:
    """List the temporary files of processes that were killed while they wrote."""
    return [path for pattern in (".*.pt.*", ".*.json.*") for path in folder.glob(pattern)]
