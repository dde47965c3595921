"""A first signal is noted, a second one obeyed, and afterwards everything is as it was."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import count

import pytest

from solfa.environment.stop_signals import ECHO_SECONDS, Stopped, StopSignals

KINDS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


class Obeyed(Exception):  # noqa: N818
    """Raised by the handler of whoever runs the run."""


@pytest.fixture(autouse=True)
def outer_handlers() -> Iterator[list[int]]:
    """Handlers that were there before; the list has what they were told."""
    told: list[int] = []

    def obey(number: int, frame: object) -> None:
        told.append(number)
        raise Obeyed

    before = {number: signal.signal(number, obey) for number in KINDS}
    yield told
    for number, handler in before.items():
        signal.signal(number, handler)


def a_second_apart() -> float:
    """A clock for two signals that a person sent: it is later each time."""
    return next(SECONDS)


SECONDS = count(0.0)


def silent(sentence: str) -> None:
    """Say nothing."""


@pytest.mark.parametrize("number", KINDS)
def test_the_first_signal_is_noted_and_the_second_obeyed(number: int, outer_handlers: list[int]) -> None:
    with StopSignals(silent, a_second_apart) as signals:
        assert signals.number == 0
        signal.raise_signal(number)
        assert signals.number == number and outer_handlers == []
        with pytest.raises(Obeyed):
            signal.raise_signal(number)
    assert outer_handlers == [number]


def test_a_signal_that_comes_twice_at_once_was_sent_once(outer_handlers: list[int]) -> None:
    with StopSignals(silent, lambda: 0.0) as signals:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert signals.number == signal.SIGINT
    assert outer_handlers == []


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopSignals(silent) as signals:
            signal.raise_signal(signal.SIGHUP)
            assert signals.number == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_first_signal_is_acknowledged_once() -> None:
    said, heard = list[str](), threading.Event()

    def say(sentence: str) -> None:
        said.append(sentence)
        heard.set()

    with StopSignals(say, lambda: 0.0):
        signal.raise_signal(signal.SIGINT)
        assert heard.wait(60)
        signal.raise_signal(signal.SIGTERM)
    assert len(said) == 1 and "stopping" in said[0] and "again" in said[0]


def test_a_lost_terminal_does_not_end_the_work() -> None:
    heard = threading.Event()

    def say(sentence: str) -> None:
        heard.set()
        raise OSError("the terminal is gone")

    with StopSignals(say, lambda: 0.0) as signals:
        signal.raise_signal(signal.SIGHUP)
        assert heard.wait(60)
        assert signals.number == signal.SIGHUP


IN_A_LONG_CALL = """
import hashlib
from solfa.environment.stop_signals import StopSignals
with StopSignals():
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # half an hour without a Python instruction
"""


@pytest.mark.slow
def test_a_long_call_delays_neither_the_answer_nor_a_second_signal() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", IN_A_LONG_CALL], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    with process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert "stopping" in process.stderr.readline()
        threading.Event().wait(2 * ECHO_SECONDS)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


def test_signals_of_a_forked_process_are_its_own() -> None:
    said = list[str]()
    with StopSignals(said.append, a_second_apart) as signals:
        child = os.fork()
        if child == 0:
            signal.raise_signal(signal.SIGINT)
            os._exit(signals.number)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == signal.SIGINT
        assert signals.number == 0
    assert said == []


def test_ctrl_c_and_the_sigterm_that_a_launcher_adds_ask_once(outer_handlers: list[int]) -> None:
    with StopSignals(silent) as signals:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert signals.number == signal.SIGTERM
    assert outer_handlers == []


@pytest.mark.parametrize("signalled", [True, False])
def test_handlers_are_put_back_also_when_the_body_raises(signalled: bool) -> None:
    before = [signal.getsignal(number) for number in KINDS]
    with pytest.raises(KeyError), StopSignals(silent):
        assert [signal.getsignal(number) for number in KINDS] != before
        if signalled:
            signal.raise_signal(signal.SIGTERM)
        raise KeyError
    assert [signal.getsignal(number) for number in KINDS] == before


def test_a_run_that_was_stopped_can_be_started_again() -> None:
    signals = StopSignals(silent)
    with signals:
        signal.raise_signal(signal.SIGTERM)
    with signals:
        assert signals.number == 0


def test_outside_the_main_thread_nothing_is_noted_and_nothing_fails() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run() -> None:
        with StopSignals(silent) as signals:
            seen.append((signals.number, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [(0, before)]


def test_the_exit_code_is_that_of_a_process_ended_by_the_signal() -> None:
    stopped = Stopped(signal.SIGTERM)
    assert (stopped.exit_code, str(stopped)) == (143, "SIGTERM")
