"""Jobs: one after another, each with an end that is known, whatever happens in it."""

import threading
import time

import pytest
from starlette.exceptions import HTTPException

from solfa.errors import ConfigError
from solfa.studio.events import Leaving
from solfa.studio.job_queue import MOST_ENDED, Job, JobQueue
from tests.studio.job_threads import wait_for_jobs


@pytest.fixture
def leaving() -> Leaving:
    return Leaving()


@pytest.fixture
def queue(leaving: Leaving) -> JobQueue:
    return JobQueue(leaving)


def until_stopped(job: Job) -> None:
    while True:
        job.report(1, 4)
        time.sleep(0.001)


def test_jobs_run_in_order_and_never_two_at_once(queue: JobQueue) -> None:
    running, seen = threading.Lock(), []

    def work(job: Job) -> None:
        assert running.acquire(blocking=False)
        time.sleep(0.002)
        seen.append(job.title)
        running.release()

    jobs = [queue.add(str(number), work) for number in range(10)]
    wait_for_jobs()
    assert seen == [str(number) for number in range(10)]
    assert {job.state for job in jobs} == {"done"}
    queue.add("later", work)  # also after the thread has ended
    wait_for_jobs()
    assert seen[-1] == "later"


def test_every_end_is_told_and_the_next_job_has_its_turn(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solfa.studio.job_queue.note_traceback", lambda *arguments: None)
    ends: list[tuple[str, str]] = []

    def refused(job: Job) -> None:
        raise ConfigError("seconds: too long")

    def broken(job: Job) -> None:
        raise RuntimeError("boom")

    def full(job: Job) -> None:
        raise OSError(28, "No space left on device")

    works = [until_stopped, refused, broken, lambda job: job.report(4, 4)]
    jobs = [queue.add("job", work, on_end=lambda job: ends.append((job.state, job.note))) for work in works]
    never = queue.add("never", until_stopped, on_end=full)
    last = queue.add("last", lambda job: None)
    while jobs[0].values()["share"] != 0.25:
        time.sleep(0.001)
    assert [job.title for job in queue.under_way()] == ["job"] * 4 + ["never", "last"]
    queue.stop(never.key)
    queue.stop(jobs[0].key)
    wait_for_jobs()
    assert [state for state, _ in ends] == ["stopped", "failed", "failed", "done"]
    assert ends[1][1] == "seconds: too long" and "RuntimeError: boom" in ends[2][1]
    assert (never.state, last.state) == ("failed", "done")  # what it noted could not be written
    with pytest.raises(HTTPException):
        queue.stop("nothing")


def test_a_server_that_ends_stops_its_jobs(queue: JobQueue, leaving: Leaving) -> None:
    jobs = [queue.add("job", until_stopped) for _ in range(3)]
    leaving.begin()
    wait_for_jobs()
    assert {job.state for job in jobs} == {"stopped"}


def test_old_jobs_are_forgotten(queue: JobQueue) -> None:
    first = queue.add("job", lambda job: None)
    for _ in range(MOST_ENDED + 1):
        wait_for_jobs()
        queue.add("job", lambda job: None)
    wait_for_jobs()
    assert queue.find(first.key) is None and len(queue.look()) <= MOST_ENDED + 1
