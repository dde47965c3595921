"""What ran out is said in a sentence; whatever else happened too, with its traceback in a file."""

import errno
import re
from pathlib import Path

import pytest
import torch

from solfa.environment.faults import OUT_OF_MEMORY, disk_fault, fault_sentence, memory_fault, note_traceback


def caught(make: object) -> BaseException:
    try:
        make()  # type: ignore[operator]
    except Exception as error:
        return error
    raise AssertionError("expected an error")


def test_torch_and_python_without_memory_are_recognised() -> None:
    found = memory_fault(caught(lambda: torch.empty(10**15)))
    assert found is not None and "out of memory" in found and "4000 TB" in found.replace(",", "")
    assert "out of memory" in fault_sentence(caught(lambda: bytearray(10**17)))
    cuda = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 8 GiB")
    assert re.search("memory on the device.*2.50 GiB.*fewer rows", fault_sentence(cuda, {OUT_OF_MEMORY: "fewer rows"}))
    assert memory_fault(RuntimeError("shapes do not match")) is None


@pytest.mark.parametrize(("number", "word"), [(errno.ENOSPC, "full"), (errno.EDQUOT, "quota"), (errno.EFBIG, "larger")])
def test_a_full_disk_is_recognised_also_inside_other_errors(number: int, word: str) -> None:
    def write() -> None:
        try:
            raise OSError(number, "?", "state.pt")
        finally:
            raise RuntimeError("unexpected pos 704 vs 598")

    error = caught(write)
    assert word in (disk_fault(error) or "") and "state.pt" in fault_sentence(error)
    assert disk_fault(OSError(errno.ENOENT, "?")) is None


def test_an_unexpected_error_is_one_sentence_and_its_traceback_a_file(tmp_path: Path) -> None:
    error = caught(lambda: {}["no such key"])
    note_traceback(error, {"XDG_DATA_HOME": str(tmp_path)}, "train")
    note_traceback(error, {"XDG_DATA_HOME": str(tmp_path)}, "train")
    (file,) = tmp_path.rglob("*.log")
    assert "Traceback" in file.read_text() and "train" in file.name
    sentence = fault_sentence(error)
    assert "KeyError" in sentence and "no such key" in sentence and sentence.count(str(file)) == 1
    assert "\n" not in sentence


def test_a_disk_that_takes_no_log_does_not_hide_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "solfa").write_text("in the way")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "elsewhere"))
    error = caught(lambda: 1 / 0)
    note_traceback(error, {"XDG_DATA_HOME": str(tmp_path)}, "train")
    assert str(tmp_path / "elsewhere") in fault_sentence(error)


def test_little_memory_that_is_not_there_is_not_rounded_to_nothing() -> None:
    error = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 262144 bytes")
    assert "262 kB" in (memory_fault(error) or "")
