"""Run encoder processes on this machine and gather their reports."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from solfa.encoding.progress import Progress
from solfa.encoding.worker_main import Job
from solfa.errors import SolfaError, StoreError

GRACE_SECONDS = 10.0
"""How long a process may take to stop what it is doing."""


def run_encoders(jobs: Sequence[Job], environment: Mapping[str, str], on_progress: Callable[[Progress], None]) -> None:
    """Run one process per job to its end; any error, here or there, ends them all and is raised."""
    reports: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
    processes = [_start(job, environment) for job in jobs]
    try:
        for index, process in enumerate(processes):
            threading.Thread(target=_read_reports, args=(index, process, reports), daemon=True).start()
        running = len(processes)
        while running:
            index, report = reports.get()
            if report is None:
                running -= 1
                _check_exit(processes[index])
            elif report["event"] == "error":
                raise StoreError(report["message"])
            else:
                on_progress(Progress(**report["progress"]))
    finally:
        _end(processes)


def _start(job: Job, environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    # In a separate session: Ctrl-C only reaches this process, which then stops the others in order.
    process = subprocess.Popen(
        [sys.executable, "-m", "solfa.encoding.worker_main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=dict(environment),
        start_new_session=os.name == "posix",
    )
    assert process.stdin is not None
    # In ASCII, as the reports are: what other letters become in a pipe depends on the system's settings.
    process.stdin.write(json.dumps(job.model_dump(mode="json")) + "\n")
    process.stdin.flush()
    return process


def _read_reports(
    index: int, process: "subprocess.Popen[str]", reports: "queue.Queue[tuple[int, dict[str, Any] | None]]"
) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        reports.put((index, json.loads(line)))
    process.wait()
    reports.put((index, None))


def _check_exit(process: "subprocess.Popen[str]") -> None:
    if process.returncode != 0:
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
        raise SolfaError(
            f"an encoder process ended with {how}; committed shards are kept, run the same command to continue"
        )


def _end(processes: "Sequence[subprocess.Popen[str]]") -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()
