"""Work that takes longer than a page: one job after another in a thread of its own, with progress, and Stop.

waiting ──► running ──┬──► done
   │                  ├──► failed: one sentence says why
   └──────────────────┴──► stopped
"""

import os
import secrets
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from starlette.exceptions import HTTPException

from solfa.environment.faults import fault_sentence, note_traceback
from solfa.errors import SolfaError
from solfa.studio.events import Leaving

State = Literal["waiting", "running", "done", "failed", "stopped"]
ENDED = ("done", "failed", "stopped")
MOST_ENDED = 50
"""How many jobs that have ended are remembered; what they wrote stays in any case."""


class JobStopped(Exception):  # noqa: N818 - nothing is wrong: somebody wanted it
    """Raised inside a job that was asked to stop."""


class Job:
    """One piece of work, and how far it is."""

    def __init__(
        self,
        key: str,
        title: str,
        work: Callable[["Job"], None],
        leaving: Leaving,
        on_end: Callable[["Job"], None] = lambda job: None,
    ) -> None:
        """`on_end` hears how it ended, also if it never began."""
        self.key, self.title = key, title
        self.state: State = "waiting"
        self.note = ""
        """What it is doing, or why it failed."""
        self.done, self.total = 0.0, 0.0
        self._work, self._leaving, self._on_end = work, leaving, on_end
        self._stop = threading.Event()

    def report(self, done: float, total: float) -> None:
        """Say how far the work is; raises `JobStopped` if nobody wants it any more. The work calls this."""
        self.done, self.total = float(done), float(total)
        self.check()

    def check(self) -> None:
        """Raise `JobStopped` if nobody wants the work any more."""
        if self._stop.is_set() or self._leaving.has_begun:
            raise JobStopped

    def say(self, note: str) -> None:
        """Say what is being done."""
        self.note = note
        self.check()

    def ask_to_stop(self) -> None:
        """Let it end at its next step; a job that is still waiting never begins."""
        self._stop.set()
        if self.state == "waiting":
            self.state = "stopped"

    def run(self) -> None:
        """Do the work; every error becomes a sentence."""
        if self.state == "waiting":
            self.state = "running"
            self.note, self.state = self._outcome()
        try:
            self._on_end(self)
        except OSError as error:  # a full disk; the next job has its turn all the same
            self.note, self.state = fault_sentence(error), "failed"

    def _outcome(self) -> tuple[str, State]:
        try:
            self.check()
            self._work(self)
        except JobStopped:
            return "", "stopped"
        except SolfaError as error:
            return str(error), "failed"
        except Exception as error:
            note_traceback(error, os.environ, "studio")
            return fault_sentence(error), "failed"
        return "", "done"

    def values(self) -> dict[str, Any]:
        """Describe it for a page that listens."""
        share = self.done / self.total if self.total else None
        return {"key": self.key, "state": self.state, "note": self.note, "share": share}


class JobQueue:
    """The jobs of a studio: one runs, the others wait for it."""

    def __init__(self, leaving: Leaving) -> None:
        self._leaving = leaving
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._waiting: deque[Job] = deque()
        self._is_working = False

    def add(
        self,
        title: str,
        work: Callable[[Job], None],
        key: str | None = None,
        on_end: Callable[[Job], None] = lambda job: None,
    ) -> Job:
        """Do `work` when all that was asked for before is done; `key` names it, `on_end` hears how it ended."""
        job = Job(key or secrets.token_hex(6), title, work, self._leaving, on_end)
        with self._lock:
            self._jobs[job.key] = job
            self._forget()
            self._waiting.append(job)
            if not self._is_working:
                self._is_working = True
                # It ends with the last job, and at the next step of a job when the server does.
                threading.Thread(target=self._work, name="studio-jobs").start()
        return job

    def _forget(self) -> None:
        ended = [key for key, job in self._jobs.items() if job.state in ENDED]
        for key in ended[: max(0, len(ended) - MOST_ENDED)]:
            del self._jobs[key]

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_working = False
                    return
                job = self._waiting.popleft()
            job.run()

    def find(self, key: str) -> Job | None:
        """Find a job; None if there was none, or it was long ago."""
        return self._jobs.get(key)

    def under_way(self) -> list[Job]:
        """List what runs and what waits, in the order of their turns."""
        return [job for job in list(self._jobs.values()) if job.state not in ENDED]

    def stop(self, key: str) -> None:
        """Stop a job, or take it out of the queue."""
        job = self.find(key)
        if job is None:
            raise HTTPException(404, f"there is no job {key!r} in this studio")
        job.ask_to_stop()

    def look(self) -> list[dict[str, Any]]:
        """Describe all jobs in plain values."""
        return [job.values() for job in list(self._jobs.values())]
