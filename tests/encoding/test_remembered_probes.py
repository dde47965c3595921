"""Planning that was killed goes on where it was."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from solfa.audio import probe as probing
from solfa.audio.probe import Probed
from solfa.audio.recording import Recording
from solfa.audio.sources.choice import open_source
from solfa.encoding import remembered_probes
from solfa.encoding.remembered_probes import forget_probes, probe_and_remember
from tests.conftest import write_tone

NUM = 5


@pytest.fixture
def audio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Five recordings, one of them broken, in chunks of two."""
    monkeypatch.setattr(remembered_probes, "RECORDINGS_PER_CHUNK", 2)
    for index in range(NUM):
        write_tone(tmp_path / f"audio/{index}.wav", 0.1 + index / 100, 8000)
    (tmp_path / "audio/2.wav").write_text("words")
    return tmp_path / "audio"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The recordings that were opened, in order of their names."""
    names: list[str] = []
    probe = probing.probe_recording

    def counted(root: Path, recording: Recording) -> object:
        names.append(recording.key)
        return probe(root, recording)

    monkeypatch.setattr(probing, "probe_recording", counted)
    return names


def chunks_of(audio: Path) -> Iterator[list[Probed]]:
    return probe_and_remember(audio.parent / "x.solfa", audio, open_source(audio).recordings())


def all_of(audio: Path) -> list[Probed]:
    return [one for chunk in chunks_of(audio) for one in chunk]


def test_what_was_opened_before_a_kill_is_not_opened_again(audio: Path, opened: list[str]) -> None:
    first = chunks_of(audio)
    next(first)
    first.close()
    assert sorted(opened) == ["0.wav", "1.wav"]
    opened.clear()
    found = all_of(audio)
    assert sorted(opened) == ["2.wav", "3.wav", "4.wav"]
    opened.clear()
    assert all_of(audio) == found
    assert opened == ["2.wav"], "what cannot be read is tried again"
    forget_probes(audio.parent / "x.solfa")
    opened.clear()
    assert all_of(audio) == found and len(opened) == NUM
    assert [recording.key for recording, _ in found] == [f"{index}.wav" for index in range(NUM)]


def test_a_file_that_has_changed_is_opened_again(audio: Path, opened: list[str]) -> None:
    before = all_of(audio)
    opened.clear()
    write_tone(audio / "4.wav", 0.5, 8000)
    after = all_of(audio)
    assert "4.wav" in opened and "0.wav" not in opened
    assert after[4] != before[4] and after[:4] == before[:4]


@pytest.mark.parametrize(
    "content", ["", "{}", "[1, 2]", '[[8000, 1, "many", "WAV"], null]', '[[8000, 1, -3, "WAV"], 3]']
)
def test_a_damaged_memory_is_as_good_as_none(audio: Path, content: str) -> None:
    found = all_of(audio)
    for path in (audio.parent / "x.solfa/.tmp").iterdir():
        assert json.loads(path.read_text())
        path.write_text(content)
    assert all_of(audio) == found
