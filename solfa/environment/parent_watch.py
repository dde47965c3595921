"""End with the process that started this one, even if it was killed: no orphan keeps a pipe, a file or a GPU.

How the parent's end shows depends on how it started us: standard input ends, a pipe closes, a sentinel is ready.
"""

import os
import threading
from collections.abc import Callable


def leave_at_once() -> None:
    """End this process without finishing anything."""
    os._exit(1)


def end_with_parent(until_gone: Callable[[], object], leave: Callable[[], object] = leave_at_once) -> None:
    """Call `leave` as soon as `until_gone` returns, which it does when the parent is gone; both in another thread."""

    def watch() -> None:
        until_gone()
        leave()

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()
