"""The processes that read audio, so that a file that crashes its decoder ends one of them and nothing else.

An encoder forks its readers before it imports torch or starts a thread, where the system allows that: they begin with
what it has imported so far, instead of importing it again. Everybody else, and whoever has lost a reader, starts new
ones.
"""

import multiprocessing
import os
import signal
import sys
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path

from solfa.environment.parent_watch import end_with_parent


def start_readers(num_workers: int) -> Executor:
    """Start processes that import what they need; with 0 of them, a thread."""
    if num_workers == 0:
        return ThreadPoolExecutor(1, thread_name_prefix="decode")
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(num_workers, mp_context=context, initializer=_watch_parent)


def fork_readers(num_workers: int) -> Executor | None:
    """Fork processes at once, which have everything that this one has imported; None where they are to be started."""
    if num_workers == 0 or not _may_fork():
        return None
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(num_workers, mp_context=context, initializer=_leave_streams_to_parent)
    pool.submit(os.getpid)  # all are forked with the first task, before the thread that watches them begins
    return pool


def _may_fork() -> bool:
    """Say whether nothing but this thread could be in the middle of something, with a lock that nobody would free."""
    return sys.platform == "linux" and len(list(Path("/proc/self/task").iterdir())) == 1


def _leave_streams_to_parent() -> None:
    # Whoever reads the reports of our parent waits until nobody is left who could write them.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    _watch_parent()


def _watch_parent() -> None:
    # A terminal tells everybody to stop; it is the parent who knows when.
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        end_with_parent(partial(wait, [parent.sentinel]))
