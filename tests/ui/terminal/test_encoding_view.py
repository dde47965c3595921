"""An encoding run in the terminal: how far it is, and how it is stopped."""

import io
import signal

import pytest
from rich.console import Console

import solfa
from solfa.encoding.fingerprint import EncodeSettings, dataset_info
from solfa.encoding.progress import Totals
from solfa.errors import Interrupted
from solfa.ui.terminal import console, encoding_view
from solfa.ui.terminal.encoding_view import EncodeView


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal would show, with everything that was ever drawn on it."""
    file = io.StringIO()
    made = Console(file=file, force_terminal=True, width=100, color_system=None)
    for module in (console, encoding_view):
        monkeypatch.setattr(module, "errors", made)
        monkeypatch.setattr(module, "console", made)
    return file


def test_it_shows_clips_speed_failures_and_the_time_left(terminal):
    with EncodeView() as view:
        view.planning(16)
        view.loading(2)
        view.encoding(Totals(), clips=40, seconds=100.0)
        view.encoding(Totals(clips=10, failed={"a.wav"}, seconds=20.0), clips=40, seconds=100.0)
    shown = terminal.getvalue()
    assert "16 recordings" in shown and "loading the codec, 2 encoders" in shown
    assert "0/40 clips" in shown and "ETA -:--:--" in shown
    assert "10/40 clips" in shown and "x real time, 1 failed" in shown and "ETA 0:00:0" in shown


@pytest.mark.parametrize(
    ("codec", "is_new", "is_told"), [("solfa_24khz", True, True), ("solfa_24khz", False, False), ("mulaw", True, False)]
)
def test_the_codec_that_nobody_chose_is_introduced_once(terminal, codec, is_new, is_told):
    with EncodeView() as view:
        view.settled(dataset_info(solfa.load_codec(codec), EncodeSettings()), is_new=is_new)
    assert ("24 kHz" in terminal.getvalue()) == is_told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_at_its_next_report_with_the_code_of_the_signal(terminal, number):
    with pytest.raises(Interrupted) as interrupted, EncodeView() as view:
        view.waiting()
        signal.raise_signal(number)
        view.waiting()
    assert interrupted.value.exit_code == 128 + number
    assert "same command" in str(interrupted.value)
