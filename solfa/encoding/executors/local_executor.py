"""Encoder processes on this machine."""

import json
import os
import queue
import threading
from collections.abc import Sequence
from typing import Any

from solfa.encoding.executors.encoder_process import (
    Process,
    check_exit,
    encoder_environment,
    end_encoders,
    reported_error,
    start_encoder,
)
from solfa.encoding.executors.protocol import Oversight, progress_of
from solfa.encoding.worker_main import EncoderJob
from solfa.files.stores.place import Place

WAIT_SECONDS = 0.1

Reports = queue.Queue[tuple[int, dict[str, Any] | None]]


class LocalExecutor:
    """Runs encoders beside this process, and ends with the first that fails."""

    def expect_ready(self, root: Place, source_root: Place) -> None:
        """There is nothing to ask: this machine is the one that looks."""

    def run(self, jobs: Sequence[EncoderJob], oversight: Oversight) -> None:
        """Run one process per job to its end; any error, here or there, ends them all and is raised."""
        reports: Reports = queue.Queue()
        environment = encoder_environment(jobs[0], os.environ)
        processes = [start_encoder(job, environment) for job in jobs]
        try:
            for index, process in enumerate(processes):
                threading.Thread(target=_read_reports, args=(index, process, reports), daemon=True).start()
            running = len(processes)
            while running:
                oversight.waiting()
                try:
                    index, report = reports.get(timeout=WAIT_SECONDS)
                except queue.Empty:
                    continue
                if report is None:
                    running -= 1
                    check_exit(processes[index].returncode)
                elif report["event"] == "error":
                    raise reported_error(report)
                else:
                    oversight.progress(index, progress_of(report))
        finally:
            end_encoders(processes)


def _read_reports(index: int, process: Process, reports: Reports) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        reports.put((index, json.loads(line)))
    process.wait()
    reports.put((index, None))
