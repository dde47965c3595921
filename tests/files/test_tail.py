"""A file that another process writes is followed through everything that happens to it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.files import tail
from solfa.files.tail import follow_lines, tail_offset


def followed(path: Path, *events: Callable[[], object], last: int = 200) -> list[str]:
    """Follow a file; each time the follower waits, the next thing happens."""
    left = list(events)

    def wait() -> bool:
        if not left:
            return False
        left.pop(0)()
        return True

    return list(follow_lines(path, wait, last=last))


def append(path: Path, text: str) -> Callable[[], object]:
    def write() -> None:
        with path.open("a", newline="") as file:
            file.write(text)

    return write


def nothing() -> None:
    """Let the follower look once more."""


def test_lines_come_whole_however_they_are_written(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\ntwo\nthr")
    assert followed(log, append(log, "ee\nfo"), nothing, append(log, "ur\r\nfi")) == [
        "one",
        "two",
        "three",
        "four",
        "fi",
    ]


def test_a_log_that_does_not_exist_yet_is_waited_for(tmp_path):
    log = tmp_path / "later" / "log"
    assert followed(log) == []
    assert followed(log, nothing, lambda: log.parent.mkdir(), append(log, "a\n"), append(log, "b\n")) == ["a", "b"]


def test_a_log_that_is_cut_is_read_from_its_beginning(tmp_path):
    log = tmp_path / "log"
    log.write_text("old line\nand an unfinished")
    assert followed(log, lambda: log.write_text("new\n")) == ["old line", "new"]


def test_a_log_that_is_replaced_loses_nothing(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\n")

    def rotate() -> None:
        append(log, "two\nthree")()
        log.rename(tmp_path / "log.1")
        log.write_text("four, which is longer than all of the old ones\n")

    assert followed(log, rotate, append(log, "five\n")) == [
        "one",
        "two",
        "three",
        "four, which is longer than all of the old ones",
        "five",
    ]


def test_a_log_that_vanishes_may_come_back(tmp_path):
    log = tmp_path / "log"
    log.write_text("one\n")
    assert followed(log, log.unlink, nothing, append(log, "two\n"), nothing) == ["one", "two"]


def test_bytes_that_are_no_text_do_not_end_it(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"\xff\xfe\nok\n")
    assert followed(log) == ["\ufffd\ufffd", "ok"]


@given(lines=st.lists(st.text("ab\r", max_size=5), max_size=12), last=st.integers(0, 14), ends=st.booleans())
def test_only_the_last_lines_of_what_is_there_are_shown(lines, last, ends, tmp_path_factory):
    path = tmp_path_factory.mktemp("tail") / "log"
    content = "\n".join(lines) + ("\n" if ends and lines else "")
    path.write_bytes(content.encode())
    expected = content.removesuffix("\n").split("\n") if content else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "BLOCK_BYTES", 3)
        offset = tail_offset(path, last)
    rest = content[offset:]
    assert (rest.removesuffix("\n").split("\n") if rest else []) == (expected[-last:] if last else [])
    assert offset == 0 or content[offset - 1] == "\n" or (last == 0 and offset == len(content))
