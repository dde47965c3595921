"""Stop and resume: the signals that a terminal sends, and the command that one would type, as a process of its own."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from solfa.errors import ConfigError
from solfa.experiments.processes.local_grid import job_environment
from solfa.files.tail import follow_lines
from solfa.xp.layout import OUTPUT, worker_outputs
from solfa.xp.lock import LockState, read_lock
from solfa.xp.provenance import read_starts

_SHOWN_LINES = 3


class RunProcesses:
    """The runs that this studio has asked to stop, and those that it has started."""

    def __init__(self, dora_dir: Path) -> None:
        self._dora_dir = dora_dir
        self._lock = threading.Lock()
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._asked: dict[str, LockState] = {}

    def stop(self, folder: Path) -> None:
        """Ask a run to save its state and end; if it was asked before, to end now, as with a second Ctrl-C."""
        holder = read_lock(folder)
        if not holder.is_held or not holder.process:
            raise ConfigError(f"{folder.name}: it is not running on this machine, so there is nothing to stop")
        if not holder.is_here:
            raise ConfigError(f"{folder.name}: {holder} runs it; stop it there")
        try:
            os.kill(holder.process, signal.SIGTERM)
        except PermissionError:
            raise ConfigError(f"{folder.name}: {holder} belongs to somebody else, who has to stop it") from None
        except ProcessLookupError:
            return  # it has just ended
        with self._lock:
            self._asked[folder.name] = holder

    def is_stopping(self, folder: Path) -> bool:
        """Say whether the run that goes on was asked to stop."""
        with self._lock:
            asked = self._asked.get(folder.name)
        return asked is not None and read_lock(folder) == asked

    def resume(self, folder: Path) -> None:
        """Start the command that continues an experiment; it goes on when the studio ends."""
        if sys.platform == "win32":
            raise ConfigError("experiments need Linux or macOS, found Windows; run them in WSL")
        if read_lock(folder).is_held:
            raise ConfigError(f"{folder.name}: it is running already")
        with self._lock:
            if self._is_starting(folder.name):
                raise ConfigError(f"{folder.name}: it is starting already")
            environment = {**job_environment(os.environ, 1), "SOLFA_DORA_DIR": str(self._dora_dir)}
            with (folder / OUTPUT).open("ab") as output:
                self._started[folder.name] = subprocess.Popen(
                    resume_command(folder),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def is_starting(self, folder: Path) -> bool:
        """Say whether a process that was started has not taken the experiment yet: it imports a lot first."""
        with self._lock:
            return self._is_starting(folder.name) and not read_lock(folder).is_held

    def _is_starting(self, name: str) -> bool:
        started = self._started.get(name)
        return started is not None and started.poll() is None

    def refusal(self, folder: Path) -> str:
        """Return the last words of a process that was started and failed; empty if none has."""
        with self._lock:
            started = self._started.get(folder.name)
        if started is None or started.poll() in (None, 0, 128 + signal.SIGTERM):
            return ""
        lines = [line.strip() for line in follow_lines(folder / OUTPUT, lambda: False, last=_SHOWN_LINES)]
        return next((line for line in reversed(lines) if line), "it ended without a word")


def resume_command(folder: Path) -> list[str]:
    """Build what one would type to continue an experiment: with several processes if its last run had several."""
    starts = read_starts(folder)
    workers = _num_workers(folder, starts[-1] if starts else {})
    several = ["--ddp-workers", str(workers)] if workers > 1 else []
    return [sys.executable, "-m", "solfa", "train", "-f", folder.name, *several]


def _num_workers(folder: Path, start: Mapping[str, object]) -> int:
    """Count the processes of the last run: what starts several writes a file for each but the first."""
    # The first of several is not started by what a user types.
    is_worker = str(start.get("command", "")).startswith("dora -P ")
    return 1 + len(worker_outputs(folder)) if is_worker else 1
