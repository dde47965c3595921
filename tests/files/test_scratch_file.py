"""What a process puts aside comes back, wherever it is kept."""

import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.files.scratch_file import ScratchFile


class SmallFile(io.FileIO):
    """A file on a disk that has room for so many bytes."""

    room = 0

    def write(self, data) -> int:
        return super().write(bytes(data)[: max(0, self.room - self.tell())])


@given(parts=st.lists(st.binary(max_size=9)), most=st.integers(0, 60))
def test_all_bytes_come_back_from_memory_and_from_the_disk(parts: list[bytes], most: int) -> None:
    with ScratchFile(bytes_in_memory=most) as scratch:
        places = [scratch.append(part) for part in parts]
        assert [scratch.read(place, len(part)) for place, part in zip(places, parts, strict=True)] == parts
        assert scratch.read(0, 1_000) == b"".join(parts)
        assert scratch.num_bytes == sum(map(len, parts))
        assert scratch.is_in_memory == (scratch.num_bytes <= most)


def test_a_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with ScratchFile(bytes_in_memory=0) as scratch:
        scratch.append(b"abc")
        assert not scratch.is_in_memory and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("room", range(13))
def test_where_a_disk_has_no_room_everything_stays_in_memory(tmp_path, monkeypatch, room: int) -> None:
    monkeypatch.setattr(SmallFile, "room", room)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda buffering: SmallFile(tmp_path / "file", "w+"))
    with ScratchFile(bytes_in_memory=5) as scratch:
        places = [scratch.append(part) for part in (b"abc", b"de", b"fgh", b"", b"ijkl")]
        assert places == [0, 3, 5, 8, 8] and scratch.read(0, 99) == b"abcdefghijkl"
        assert scratch.is_in_memory == (room < 12)


def test_where_no_file_can_be_made_everything_stays_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with ScratchFile(bytes_in_memory=2) as scratch:
        places = [scratch.append(part) for part in (b"abc", b"de")]
        assert scratch.is_in_memory and [scratch.read(place, 2) for place in places] == [b"ab", b"de"]
