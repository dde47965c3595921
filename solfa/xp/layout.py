"""The files in an experiment's folder. No other module spells these names.

xps/SIG/
  .argv.json            the overrides, written by Dora; marks the folder as an experiment
  config.json           the settings of its last run
  history.json          one entry per epoch: {stage: {metric: number}}
  checkpoint.pt         the last state, to resume from
  checkpoint_0012.pt    a copy of the state after epoch 12 (`checkpoint.save_every`, `checkpoint.keep_last`)
  best.pt               the weights of the best epoch and nothing else: what generating and fine-tuning need
  start.pt              the weights that a run with `continue_from` started from, until it ends
  evidence.html         what became of them: losses, weights and clips before and after; evidence.json has the numbers
  valid.json            the result of a stage run on its own (`execute_only`); also evaluate.json, generate.json
  solver.log.0          the log of the first process; the others have their own numbers
  worker_1.log          output of the other processes on one machine; the first prints to the terminal
  output.log            its output when it runs as part of a local grid
  samples/12/           generated clips after epoch 12; samples/index.html shows all epochs
  tensorboard/          curves; wandb/, if enabled, is laid out by the wandb package
  .prepared.json        the datasets that the first process prepared; the others wait for it
  .mirrored.json        which files were copied to `checkpoint.mirror`, as they were
  provenance.json       the versions, the commit, the machine, the command and the data of every start
  failure.json          why the last run ended early; gone when it continues
  .lock                 who is running it

grids/NAME/SIG          beside xps/, a link to every experiment of a grid
"""

import re
from pathlib import Path

ARGV = ".argv.json"
CONFIG = "config.json"
HISTORY = "history.json"
LAST = "checkpoint.pt"
BEST = "best.pt"
START = "start.pt"
EVIDENCE = "evidence.json"
EVIDENCE_PAGE = "evidence.html"
OUTPUT = "output.log"
SAMPLES = "samples"
SAMPLES_PAGE = "index.html"
TENSORBOARD = "tensorboard"
WANDB = "wandb"
PREPARED = ".prepared.json"
MIRRORED = ".mirrored.json"
PROVENANCE = "provenance.json"
FAILURE = "failure.json"
LOCK = ".lock"
GRIDS = "grids"

_COPY = re.compile(r"checkpoint_(\d+)\.pt")


def log_path(folder: Path, rank: int = 0) -> Path:
    """Return the log file of a process."""
    return folder / f"solver.log.{rank}"


def worker_outputs(folder: Path) -> list[Path]:
    """List the outputs of the processes beside the first."""
    return sorted(folder.glob("worker_*.log"))


def log_paths(folder: Path) -> list[Path]:
    """List the logs of all processes."""
    return sorted(folder.glob("solver.log.*"))


def worker_log_path(folder: Path, rank: int) -> Path:
    """Return the output file of a process that does not print to the terminal."""
    return folder / f"worker_{rank}.log"


def stage_path(folder: Path, stage: str) -> Path:
    """Return the result file of a stage that was run on its own."""
    return folder / f"{stage}.json"


def copy_path(folder: Path, epoch: int) -> Path:
    """Return the file with a copy of an epoch's state."""
    return folder / f"checkpoint_{epoch:04d}.pt"


def copied_epochs(folder: Path) -> list[int]:
    """List the epochs whose state has a copy."""
    matches = (_COPY.fullmatch(path.name) for path in folder.glob("checkpoint_*.pt"))
    return sorted(int(match[1]) for match in matches if match)


def is_copy(name: str) -> bool:
    """Say whether a file is a copy of an epoch's state."""
    return _COPY.fullmatch(name) is not None


def mirrored_files(folder: Path) -> dict[str, Path]:
    """List what a mirror holds, by name: the states, the records that a run continues with, and the samples."""
    records = sorted(path for path in folder.glob("*.json") if path.name[0] != "." or path.name in (ARGV, PREPARED))
    kept = [path for path in records if path.is_file() and path.name != FAILURE]
    samples = [path for path in sorted((folder / SAMPLES).rglob("*")) if path.is_file() and path.name[0] != "."]
    return {path.relative_to(folder).as_posix(): path for path in (*kept, *samples, *state_paths(folder))}


def state_paths(folder: Path) -> list[Path]:
    """List the files that hold weights: the last state, its copies, and the best epoch's."""
    return sorted([*folder.glob(BEST), *folder.glob("checkpoint*.pt")])


def written_in_place(folder: Path) -> list[Path]:
    """List the files and folders that a run appends to or fills; all others it replaces as a whole."""
    outputs = [*log_paths(folder), *folder.glob("worker_*.log"), *(folder / SAMPLES).glob("*")]
    return [*(folder / name for name in (ARGV, OUTPUT, SAMPLES, TENSORBOARD, WANDB)), *outputs]


def leftovers(folder: Path) -> list[Path]:
    """List temporary files left by processes that were killed while writing."""
    return [path for pattern in (".*.pt.*", ".*.json.*") for path in folder.glob(pattern)]
