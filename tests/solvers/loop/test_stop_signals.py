"""A first signal is noted, a second one obeyed, and afterwards everything is as it was."""

import signal
import threading
from collections.abc import Iterator

import pytest

from solfa.config import parse_config
from solfa.solvers.config import SolverConfig
from solfa.solvers.fabric.devices import start_fabric
from solfa.solvers.loop.stop_signals import Stopped, StopSignals, agree
from tests.solvers.toy import ToyConfig, toy_values


class Obeyed(Exception):  # noqa: N818
    """Raised by the handler of whoever runs the run."""


@pytest.fixture(autouse=True)
def outer_handlers() -> Iterator[list[int]]:
    """Handlers that were there before; the list has what they were told."""
    told: list[int] = []

    def obey(number: int, frame: object) -> None:
        told.append(number)
        raise Obeyed

    before = {number: signal.signal(number, obey) for number in (signal.SIGTERM, signal.SIGINT)}
    yield told
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_is_noted_and_the_second_obeyed(number: int, outer_handlers: list[int]) -> None:
    with StopSignals() as signals:
        assert signals.number == 0
        signal.raise_signal(number)
        assert signals.number == number and outer_handlers == []
        with pytest.raises(Obeyed):
            signal.raise_signal(number)
    assert outer_handlers == [number]


def test_ctrl_c_and_the_sigterm_that_a_launcher_adds_ask_once(outer_handlers: list[int]) -> None:
    with StopSignals() as signals:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        assert signals.number == signal.SIGTERM
    assert outer_handlers == []


@pytest.mark.parametrize("signalled", [True, False])
def test_handlers_are_put_back_also_when_the_body_raises(signalled: bool) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    with pytest.raises(KeyError), StopSignals():
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] != before
        if signalled:
            signal.raise_signal(signal.SIGTERM)
        raise KeyError
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_run_that_was_stopped_can_be_started_again() -> None:
    signals = StopSignals()
    with signals:
        signal.raise_signal(signal.SIGTERM)
    with signals:
        assert signals.number == 0


def test_outside_the_main_thread_nothing_is_noted_and_nothing_fails() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def run() -> None:
        with StopSignals() as signals:
            seen.append((signals.number, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [(0, before)]


def test_the_exit_code_is_that_of_a_process_ended_by_the_signal() -> None:
    stopped = Stopped(signal.SIGTERM)
    assert (stopped.exit_code, str(stopped)) == (143, "SIGTERM")


def test_alone_one_agrees_with_oneself() -> None:
    cfg: SolverConfig = parse_config(ToyConfig, toy_values(), "toy")
    assert agree(start_fabric(cfg), 15, 0, 1) == [15, 0, 1]
