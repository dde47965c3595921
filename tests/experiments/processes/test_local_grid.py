"""Experiments of a grid on this machine: so many at a time, each to its own end."""

import os
import signal
import sys
import threading
from pathlib import Path

from solfa.experiments.processes.local_grid import GridJob, job_environment, run_jobs
from solfa.xp.layout import OUTPUT


def job(folder: Path, text: str) -> GridJob:
    return GridJob(folder.name, [sys.executable, "-c", f"import os, time\n{text}"], folder)


def test_every_job_runs_and_one_that_fails_stops_no_other(tmp_path):
    jobs = [job(tmp_path / f"{index}", f"print({index}); os._exit({index % 2})") for index in range(4)]
    jobs[2].state = "done"
    at_once = []
    code = run_jobs(jobs, 2, lambda: at_once.append(sum(one.state == "running" for one in jobs)))
    assert code == 1
    assert [(one.state, one.exit_code) for one in jobs] == [
        ("done", 0),
        ("failed", 1),
        ("done", None),
        ("failed", 1),
    ]
    assert not (tmp_path / "2").exists()
    assert (tmp_path / "0" / OUTPUT).exists()
    assert max(at_once, default=0) <= 2


def test_no_more_run_than_asked_for(tmp_path):
    text = f"""
import pathlib
here = pathlib.Path({str(tmp_path)!r})
lock = here / "lock"
lock.mkdir()
time.sleep(0.2)
lock.rmdir()
"""
    assert run_jobs([job(tmp_path / f"{index}", text) for index in range(3)], 1) == 0


def test_a_signal_stops_what_runs_and_starts_nothing_more(tmp_path):
    jobs = [job(tmp_path / f"{index}", "time.sleep(60)") for index in range(3)]
    looks = []

    def look() -> None:
        looks.append(None)
        if len(looks) == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    assert threading.current_thread() is threading.main_thread()
    assert run_jobs(jobs, 2, look) == 143
    assert [one.state for one in jobs] == ["stopped"] * 3
    assert not (tmp_path / "2").exists()


def test_jobs_share_the_cores_and_are_ranks_of_nothing():
    environment = job_environment({"RANK": "1", "WORLD_SIZE": "2", "HOME": "/h"}, 10_000)
    assert environment == {"OMP_NUM_THREADS": "1", "HOME": "/h"}
