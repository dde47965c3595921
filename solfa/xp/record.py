"""Find experiments by signature and read their folders (`solfa.xp.layout`) without the code that trained them."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from solfa.errors import ConfigError, StoreError
from solfa.files.json_objects import parse_object
from solfa.xp.failure import Failure, read_failure
from solfa.xp.layout import ARGV, BEST, CONFIG, HISTORY, SAMPLES, SAMPLES_PAGE, log_path, log_paths, state_paths
from solfa.xp.lock import LockState, read_lock

CLIP_SUFFIXES = frozenset({".wav", ".flac", ".ogg", ".mp3"})
RECENT_SECONDS = 120.0
"""If a run on another machine, whose lock cannot be checked from here, wrote this recently, it is probably going."""
SHOWN = 5

State = Literal["running", "done", "failed", "dead", "stopped", "unknown", "never ran"]
"""dead: its process was killed. stopped: it was asked to. unknown: it is or was on another machine."""
Epoch = Mapping[str, Mapping[str, float | None]]
"""Stage to metric to value; None where a value is not a number."""


@dataclass(frozen=True)
class ExperimentRecord:
    """The contents of an experiment's folder."""

    folder: Path
    overrides: tuple[str, ...]
    config: Mapping[str, Any] | None
    history: tuple[Epoch, ...]
    checkpoints: tuple[Path, ...]
    clips: tuple[Path, ...]
    """Generated audio."""
    last_written: float | None
    """When a run last wrote something, in seconds since 1970; None if it never ran."""
    changed: float
    """When the newest of its records was written, the overrides included."""
    lock: LockState = field(default_factory=LockState)
    """Who runs it."""
    failure: Failure | None = None
    """Why its last run ended early."""
    faults: tuple[str, ...] = ()
    """One sentence for each thing that could not be read."""

    @property
    def signature(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def log(self) -> Path:
        """Where the log is, or will be."""
        return log_path(self.folder)

    @property
    def samples(self) -> Path:
        """Where to listen to generated clips: their page if there is one."""
        page = self.folder / SAMPLES / SAMPLES_PAGE
        return page if page.is_file() else self.folder / SAMPLES

    @property
    def planned_epochs(self) -> int | None:
        """How many epochs it should train, if known."""
        optim = (self.config or {}).get("optim")
        epochs = optim.get("epochs") if isinstance(optim, Mapping) else None
        return epochs if isinstance(epochs, int) else None

    def state(self, now: float) -> State:
        """Describe its state: whether it is running comes from its lock, everything else from its records."""
        if self.lock.is_held:
            return "running"
        if self.lock.is_held is None and self.lock.host:
            is_recent = self.last_written is not None and now - self.last_written < RECENT_SECONDS
            if is_recent or not self._is_done:
                return "running" if is_recent else "unknown"
        if self._is_done:
            return "done"
        if self.failure is not None:
            return "failed"
        if self.lock.host:
            return "dead"
        return "never ran" if self.last_written is None else "stopped"

    def state_words(self, now: float) -> str:
        """Describe its state with where it runs, or why it does not."""
        state, elsewhere = self.state(now), bool(self.lock.host) and not self.lock.is_here
        if state == "running":
            return f"running on {self.lock.host}" if elsewhere else "running"
        if state == "unknown":
            return f"unknown: {self.lock} took it, and its lock cannot be checked from here"
        if state == "dead":
            return f"dead: {self.lock} was killed"
        return f"failed: {self.failure.reason}" if state == "failed" and self.failure else state

    @property
    def _is_done(self) -> bool:
        return self.planned_epochs is not None and len(self.history) >= self.planned_epochs


def list_experiments(xps_dir: str | Path) -> list[Path]:
    """List the folders of all experiments, the most recently changed first.

    >>> from pathlib import Path
    >>> from solfa.xp import list_experiments
    >>> Path("xps/9521b0af").mkdir(parents=True)
    >>> _ = Path("xps/9521b0af/.argv.json").write_text('["solver=lm/debug"]')
    >>> [folder.name for folder in list_experiments("xps")]
    ['9521b0af']
    """
    xps_dir = Path(xps_dir)
    if not xps_dir.is_dir():
        return []
    # What is hidden is being removed.
    folders = [folder for folder in xps_dir.iterdir() if folder.name[0] != "." and is_experiment(folder)]
    return sorted(folders, key=lambda folder: (-_changed(folder), folder.name))


def is_experiment(folder: Path) -> bool:
    """Say whether a folder is an experiment's: the overrides are the first file that Dora puts there."""
    return any((folder / name).is_file() for name in (ARGV, CONFIG, HISTORY))


class NoSuchExperimentError(ConfigError):
    """No experiment has the name; what was meant may be something else."""


def find_experiment(xps_dir: str | Path, text: str) -> Path:
    """Find an experiment by its signature, the start of one, `//sig/SIG`, or the path of its folder.

    >>> from pathlib import Path
    >>> from solfa.xp import find_experiment, read_experiment
    >>> Path("xps/9521b0af").mkdir(parents=True)
    >>> _ = Path("xps/9521b0af/.argv.json").write_text('["solver=lm/debug"]')
    >>> read_experiment(find_experiment("xps", "9521")).overrides
    ('solver=lm/debug',)
    """
    xps_dir = Path(xps_dir)
    signature = text.removeprefix("//sig/").rstrip("/")
    if "/" not in signature and not signature.startswith(".") and signature:
        if is_experiment(xps_dir / signature):
            return xps_dir / signature
        matching = [folder for folder in list_experiments(xps_dir) if folder.name.startswith(signature)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            names = ", ".join(folder.name for folder in matching[:SHOWN])
            raise ConfigError(
                f"{text}: {len(matching)} experiments in {xps_dir} start like that ({names}); type more of it"
            )
    if not text.startswith("//") and is_experiment(Path(text)):
        return Path(text).resolve()
    raise NoSuchExperimentError(no_such_experiment(xps_dir, text))


def no_such_experiment(xps_dir: Path, text: str) -> str:
    """Make the error for an unknown experiment, listing those with a similar name, or else the latest."""
    names = [folder.name for folder in list_experiments(xps_dir)]
    if not names:
        return f"{text}: there are no experiments in {xps_dir}; train one, or set SOLFA_DORA_DIR to where they are kept"
    near = similar_experiments(xps_dir, text)
    known = f"did you mean {' or '.join(near)}?" if near else f"the latest are {', '.join(names[:SHOWN])}"
    return f"{text}: no such experiment in {xps_dir}; {known}"


def similar_experiments(xps_dir: Path, text: str) -> list[str]:
    """List the signatures that resemble what was typed, the most similar first."""
    names = [folder.name for folder in list_experiments(xps_dir)]
    return get_close_matches(text.removeprefix("//sig/"), names, n=SHOWN, cutoff=0.5)


def read_experiment(folder: str | Path) -> ExperimentRecord:
    """Read a folder; damaged files are left out and listed in `faults`.

    >>> from pathlib import Path
    >>> from solfa.xp import read_experiment
    >>> Path("xps/9521b0af").mkdir(parents=True)
    >>> _ = Path("xps/9521b0af/.argv.json").write_text('["solver=lm/debug"]')
    >>> record = read_experiment("xps/9521b0af")
    >>> record.overrides, record.checkpoints, record.faults
    (('solver=lm/debug',), (), ())
    """
    folder = Path(folder)
    faults: list[str] = []
    overrides = _read(folder / ARGV, list, faults) or []
    entries = _read(folder / HISTORY, list, faults) or []
    checkpoints = tuple(state_paths(folder))
    written = [folder / HISTORY, *log_paths(folder), *checkpoints]
    return ExperimentRecord(
        folder=folder,
        overrides=tuple(str(override) for override in overrides),
        config=_read(folder / CONFIG, dict, faults),
        history=tuple(as_epoch(entry) for entry in entries if isinstance(entry, Mapping)),
        checkpoints=checkpoints,
        clips=_clips(folder),
        last_written=max((path.stat().st_mtime for path in written if path.exists()), default=None),
        changed=_changed(folder),
        lock=read_lock(folder),
        failure=read_failure(folder),
        faults=tuple(faults),
    )


def folder_bytes(folder: Path) -> int:
    """Add up the sizes of the files in a folder; several names of one file count once."""
    found = {(status.st_dev, status.st_ino): status.st_size for status in map(Path.lstat, folder.rglob("*"))}
    return sum(found.values())


def expect_trained(folder: Path, where: str = "") -> None:
    """Refuse a folder without the settings or the best weights of an experiment."""
    for name in (CONFIG, BEST):
        if not (folder / name).is_file():
            raise ConfigError(f"{where or folder}: expected a trained experiment, found no {name}; train it first")


def read_settings(folder: Path, advice: str = "") -> dict[str, Any]:
    """Read the settings that an experiment ran with, as plain values."""
    path = folder / CONFIG
    try:
        return parse_object(path.read_bytes())
    except ValueError as error:
        sentence = f"{path}: expected the settings of a run as a JSON object ({error})"
        raise StoreError(f"{sentence}; {advice}" if advice else sentence) from None


def as_epoch(entry: Mapping[str, Any]) -> Epoch:
    """Convert a history entry to {stage: {metric: number}}; metrics without a stage get the stage ''."""
    stages: dict[str, dict[str, float | None]] = {}
    for name, value in entry.items():
        if isinstance(value, Mapping):
            stages.setdefault(name, {}).update(_flat(value))
        else:
            stages.setdefault("", {})[name] = _number(value)
    return stages


def _flat(metrics: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, float | None]]:
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _number(value)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _read(path: Path, kind: type, faults: list[str]) -> Any:
    """Read JSON of a given type, if the file exists."""
    if not path.is_file():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as fault:
        faults.append(f"{path}: expected JSON, but it cannot be read ({fault})")
        return None
    if not isinstance(value, kind):
        faults.append(f"{path}: expected a {kind.__name__}, found {type(value).__name__}")
        return None
    return value


def _clips(folder: Path) -> tuple[Path, ...]:
    paths = (folder / SAMPLES).rglob("*")
    return tuple(sorted(path for path in paths if path.suffix.lower() in CLIP_SUFFIXES))


def _changed(folder: Path) -> float:
    """Return when the newest of the folder's own records was written."""
    paths = (*(folder / name for name in (ARGV, CONFIG, HISTORY)), log_path(folder))
    return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)
