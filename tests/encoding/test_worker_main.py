"""What an encoder process says when something goes wrong; one that nobody listens to any more ends without a word."""

import errno
import os
import re
import subprocess
import sys

import pytest

from solfa.encoding.executors.encoder_process import reported_error
from solfa.encoding.worker_main import EncoderJob, error_report
from solfa.errors import StoreError, exit_code


@pytest.mark.slow
def test_without_a_reader_of_its_reports_it_ends_and_says_nothing(tmp_path):
    job = EncoderJob(
        dest=str(tmp_path / "none.solfa"),
        source_root=str(tmp_path),
        codec="mulaw",
        bf16=False,
        device="cpu",
        num_workers=0,
        encoder=0,
        num_encoders=1,
    )
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "solfa.encoding.worker_main"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert process.stdin is not None and process.stderr is not None
    # The input stays open: it is not the end of the parent that it notices.
    process.stdin.write(job.model_dump_json() + "\n")
    process.stdin.flush()
    assert process.wait(120) != 0
    assert process.stderr.read() == ""
    process.stdin.close()
    process.stderr.close()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28]"), r"disk is full.*run the same"),
        (MemoryError("Unable to allocate 3 TiB"), r"out of memory.*`num_encoders`.*traceback is in"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU"), r"device: 2\.00 GiB.*`batch_seconds`"),
        (KeyError("frames"), r"unexpected.*KeyError.*traceback is in"),
    ],
)
def test_an_error_that_nobody_expected_is_a_sentence_and_its_traceback_is_in_a_log(tmp_path, monkeypatch, error, words):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    made = reported_error(error_report(error, "music.solfa"))
    assert str(made).startswith("music.solfa: ") and "\n" not in str(made) and exit_code(made) == 1
    assert re.search(words, str(made))
    logs = [path.read_text() for path in tmp_path.glob("solfa/errors/*.log")]
    assert len(logs) == (0 if isinstance(error, OSError) else 1) and all(type(error).__name__ in log for log in logs)


def test_what_a_user_can_act_on_is_reported_as_it_is():
    made = reported_error(error_report(StoreError("x.solfa/plan: the file is damaged"), "x.solfa"))
    assert isinstance(made, StoreError) and str(made) == "x.solfa/plan: the file is damaged"
