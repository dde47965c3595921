"""How runs are doing, for the pages: one glance that tells whether anything has changed, and the words for a state."""

from pathlib import Path
from typing import NamedTuple

from starlette.exceptions import HTTPException

from solfa.errors import StoreError
from solfa.files.json_objects import read_object
from solfa.studio.runs.run_processes import RunProcesses
from solfa.xp.layout import BEST, EVIDENCE, FAILURE, HISTORY, SAMPLES, SAMPLES_PAGE, log_path
from solfa.xp.lock import read_lock
from solfa.xp.record import ExperimentRecord, is_experiment, list_experiments


class RunState(NamedTuple):
    """The state of a run, and what can be done about it."""

    name: str
    """One word, for a colour."""
    words: str
    can_stop: bool
    can_resume: bool


def run_state(record: ExperimentRecord, processes: RunProcesses, now: float) -> RunState:
    """Describe a run; a process that the studio has started or asked to stop is mentioned."""
    state, words = record.state(now), record.state_words(now)
    if state == "running":
        can_stop = bool(record.lock.is_held) and record.lock.is_here
        is_stopping = processes.is_stopping(record.folder)
        return RunState("running", "stopping" if is_stopping else words, can_stop, can_resume=False)
    if processes.is_starting(record.folder):
        return RunState("running", "starting", can_stop=False, can_resume=False)
    refusal = processes.refusal(record.folder) if state != "done" else ""
    if refusal and state != "failed":
        return RunState("failed", f"could not be started: {refusal}", can_stop=False, can_resume=True)
    return RunState(state, words, can_stop=False, can_resume=state in ("stopped", "dead", "failed", "never ran"))


def find_run(xps_dir: Path, signature: str) -> Path:
    """Find the folder of a run by its name in an address; it is a page that is not there if there is none."""
    folder = xps_dir / signature
    if "/" in signature or signature.startswith(".") or not signature or not is_experiment(folder):
        raise HTTPException(404, f"there is no run {signature!r} in {xps_dir}")
    return folder


def is_askable(record: ExperimentRecord) -> bool:
    """Say whether a run has weights that one can ask for clips; a codec makes none."""
    return (record.folder / BEST).is_file() and (record.config or {}).get("solver") != "compression"


def evidence_sentence(folder: Path) -> str:
    """Return what a run that started from weights says about itself in the end; empty as long as it has not."""
    if not (folder / EVIDENCE).is_file():
        return ""
    try:
        return str(read_object(folder / EVIDENCE, StoreError).get("sentence", ""))
    except StoreError as error:  # the rest of the page does not depend on it
        return str(error)


def glance(folder: Path, processes: RunProcesses) -> list[object]:
    """Look at what changes while a run goes on, without reading it."""
    watched = (HISTORY, FAILURE, EVIDENCE, f"{SAMPLES}/{SAMPLES_PAGE}")
    lock = read_lock(folder)
    is_starting, is_stopping = processes.is_starting(folder), processes.is_stopping(folder)
    stamps = [_stamp(path) for path in (*(folder / name for name in watched), log_path(folder))]
    return [*stamps, lock.is_held, lock.process, is_starting, is_stopping, processes.refusal(folder)]


def glance_at_all(xps_dir: Path, processes: RunProcesses) -> dict[str, list[object]]:
    """Look at all runs."""
    return {folder.name: glance(folder, processes) for folder in list_experiments(xps_dir)}


def _stamp(path: Path) -> list[int]:
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_size]
