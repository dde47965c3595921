"""An encoder process that nobody listens to any more ends without a word."""

import os
import subprocess
import sys

import pytest

from solfa.encoding.worker_main import EncoderJob


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
