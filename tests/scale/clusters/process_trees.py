"""Processes by their parents, as Linux lists them, and waiting for something to happen to them."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def processes() -> list[int]:
    """List all processes."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def descendants(pid: int) -> list[int]:
    """List the processes below one."""
    parents = {each: parent_of(each) for each in processes()}
    found: list[int] = []
    frontier = {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found += frontier
    return found


def environment_of(pid: int) -> dict[str, str]:
    """Return the variables that a process started with; none if it is gone or somebody else's."""
    try:
        text = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return {}
    return dict(pair.split("=", 1) for pair in text.split("\0") if "=" in pair)


def command_of(pid: int) -> str:
    """Return the command line of a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def kill(*pids: int) -> None:
    """Kill processes as a power cut does; those that are gone are gone."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for something to happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
