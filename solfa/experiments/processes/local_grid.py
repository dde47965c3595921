"""Run the experiments of a grid on this machine, a few at a time; finished ones are left alone."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from solfa.environment.ranks import usable_cores
from solfa.experiments.processes.children import GRACE_SECONDS, Child, Family
from solfa.xp.layout import OUTPUT

State = Literal["waiting", "running", "done", "failed", "stopped"]


@dataclass
class GridJob:
    """One experiment of a grid and its state."""

    name: str
    command: Sequence[str]
    folder: Path
    state: State = "waiting"
    exit_code: int | None = None


def run_jobs(
    jobs: Sequence[GridJob],
    num_at_once: int,
    on_look: Callable[[], None] = lambda: None,
    *,
    seconds_between_looks: float = 0.2,
    grace_seconds: float = GRACE_SECONDS,
) -> int:
    """Run the waiting jobs in order and return an exit code; one that fails does not stop the others.

    `on_look` is called each time the jobs have been polled. A signal to this process stops all of them.
    """
    running: dict[Child, GridJob] = {}
    waiting = [job for job in jobs if job.state == "waiting"]
    environment = job_environment(os.environ, num_at_once)
    with Family(grace_seconds) as family:
        while (waiting or running) and not family.received:
            while waiting and len(running) < num_at_once:
                job = waiting.pop(0)
                job.folder.mkdir(parents=True, exist_ok=True)
                running[family.start(job.command, environment, job.folder / OUTPUT)] = job
                job.state = "running"
            time.sleep(seconds_between_looks)
            for child in [child for child in running if child.poll() is not None]:
                _finish(running.pop(child), child)
            on_look()
        family.end()
    for child, job in running.items():
        job.state, job.exit_code = "stopped", child.returncode
    for job in waiting:
        job.state = "stopped"
    on_look()
    return family.exit_code or int(any(job.state == "failed" for job in jobs))


def _finish(job: GridJob, child: Child) -> None:
    job.exit_code = child.returncode
    job.state = "failed" if child.returncode else "done"


def job_environment(environment: Mapping[str, str], num_at_once: int) -> dict[str, str]:
    """Share the cores among simultaneous jobs, unless the user already did, and drop any rank of our own."""
    ranks = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    threads = max(1, usable_cores() // num_at_once)
    kept = {name: value for name, value in environment.items() if name not in ranks}
    return {"OMP_NUM_THREADS": str(threads), **kept}
