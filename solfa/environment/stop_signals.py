"""Stop on a signal: the first is acknowledged at once and handled where the work can stop, a second one ends it now.

Python runs signal handlers between two of its own instructions, which may be a long time apart (a backward pass, a call
into a codec). So the system's handler also writes to a socket, which a thread reads: it says that the signal has
arrived, and after a second one it ends the process if the interpreter does not get round to it.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
ACKNOWLEDGED = "stopping; again to quit now"
ECHO_SECONDS = 0.3
"""Programs that run others (`uv run`, `srun`) pass a Ctrl-C on that the terminal has already sent to everybody."""
UNWINDING_SECONDS = 1.0
"""How long the interpreter may take to leave after a second signal before the process is ended."""
_SHOW_CURSOR = b"\x1b[?25h\n"

Say = Callable[[str], object]


class Stopped(Exception):  # noqa: N818 - nothing is wrong: it ends work as asked
    """Raised where the work can stop, after a signal has arrived."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


def say_on_stderr(sentence: str) -> None:
    """Write a line to standard error; below the ^C that a terminal shows."""
    sys.stderr.write(f"\n{sentence}\n" if sys.stderr.isatty() else f"{sentence}\n")
    sys.stderr.flush()


class StopSignals:
    """While entered, SIGTERM, SIGINT and SIGHUP are noted for later; the second of a kind does what it did before.

    Ctrl-C reaches every process in a terminal, and their parent may add a SIGTERM: the two count as one request.
    A signal that is ignored stays ignored (`nohup`). `say` is called from another thread, with one sentence.

    >>> from solfa.environment.stop_signals import Stopped, StopSignals
    >>> with StopSignals() as signals:
    ...     for number in range(3):
    ...         if signals.number:
    ...             raise Stopped(signals.number)
    """

    def __init__(self, say: Say = say_on_stderr, clock: Callable[[], float] = time.monotonic) -> None:
        self.number = 0
        """The signal that arrived last; 0 if none has."""
        self._say, self._clock = say, clock
        self._before: dict[int, Any] = {}
        self._first: dict[int, float] = {}
        self._watch: _Watch | None = None

    def __enter__(self) -> "StopSignals":
        self.number, self._first = 0, {}
        if threading.current_thread() is not threading.main_thread():
            return self  # only the main thread can handle signals; elsewhere they are not noted
        self._watch = _Watch(self._say, self._clock)
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = self._clock()
        if now - self._first.setdefault(number, now) < ECHO_SECONDS:
            self.number = number
            return
        before = self._before[number]
        signal.signal(number, before)
        if callable(before):
            before(number, frame)
        else:
            os.kill(os.getpid(), number)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
        if self._watch is not None:
            self._watch.end()
            self._watch = None


class _Watch:
    """A thread that hears of signals as soon as they arrive."""

    def __init__(self, say: Say, clock: Callable[[], float]) -> None:
        self._say, self._clock = say, clock
        self._terminals = [descriptor for descriptor in (1, 2) if os.isatty(descriptor)]
        self._read, self._written = socket.socketpair()
        self._written.setblocking(False)
        self._before = signal.set_wakeup_fd(self._written.fileno(), warn_on_full_buffer=False)
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="stop-signals", daemon=True)
        self._thread.start()
        _watches.append(self)

    def end(self) -> None:
        """Stop listening."""
        _watches.remove(self)
        self._left.set()
        signal.set_wakeup_fd(self._before)
        self._written.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._written.close()
        self._read.close()

    def leave_to_parent(self) -> None:
        """In a process that was forked: its signals are not its parent's."""
        signal.set_wakeup_fd(-1)
        self._written.close()

    def _listen(self) -> None:
        first: dict[int, float] = {}
        while received := self._read.recv(1):
            number = received[0]
            if number not in SIGNALS or signal.getsignal(number) == signal.SIG_IGN:
                continue
            now = self._clock()
            if not first:
                self._acknowledge(number)
            if now - first.setdefault(number, now) >= ECHO_SECONDS:
                self._quit(number)

    def _acknowledge(self, number: int) -> None:
        self._let_go_of_lost_terminals()
        # The terminal may be gone, which is no reason to stop without saving.
        with suppress(OSError):
            self._say(ACKNOWLEDGED)

    def _let_go_of_lost_terminals(self) -> None:
        """Write to nowhere what would go to a terminal that was closed; an error would end the work instead."""
        for descriptor in self._terminals:
            if not os.isatty(descriptor):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, descriptor)
                os.close(nowhere)

    def _quit(self, number: int) -> None:
        """End the process unless it is on its way out, or somebody types into it and would lose more than this."""
        if hasattr(sys, "ps1") or self._left.wait(UNWINDING_SECONDS):
            return
        with suppress(OSError):
            os.write(2, _SHOW_CURSOR if os.isatty(2) else b"")
        os._exit(128 + number)


_watches: list[_Watch] = []


def _after_fork() -> None:
    for watch in _watches:
        watch.leave_to_parent()
    _watches.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
