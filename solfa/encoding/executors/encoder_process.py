"""One encoder process on this machine: how it is started, what its exit code means, and how it is ended."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from signal import SIGTERM
from typing import IO, Any

from solfa.encoding.worker_main import STOPPED, EncoderJob
from solfa.environment.allocator import worker_environment
from solfa.errors import Interrupted, SolfaError, StoreError

GRACE_SECONDS = 10.0
"""How long a process may take to stop what it is doing."""

Process = subprocess.Popen[str]


def encoder_environment(job: EncoderJob, base: Mapping[str, str]) -> dict[str, str]:
    """Choose the variables that the process of a job starts with on this machine."""
    on_cpu = job.device == "cpu"
    return worker_environment(base, one_thread=on_cpu, bf16=on_cpu and job.bf16)


def start_encoder(job: EncoderJob, environment: Mapping[str, str], errors: IO[str] | None = None) -> Process:
    """Start an encoder; its reports are lines of its standard output."""
    # In a separate session: Ctrl-C only reaches this process, which then stops the others in order.
    process = subprocess.Popen(
        # -P: a file torch.py in the folder the user is in is not torch.
        [sys.executable, "-P", "-m", "solfa.encoding.worker_main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=dict(environment),
        start_new_session=os.name == "posix",
    )
    assert process.stdin is not None
    # In ASCII, as the reports are: what other letters become in a pipe depends on the system's settings.
    process.stdin.write(json.dumps(job.model_dump(mode="json")) + "\n")
    process.stdin.flush()
    return process


def check_exit(code: int) -> None:
    """Raise what the exit code of an encoder means, if it did not just finish."""
    if code == STOPPED:  # by somebody else than us: a scheduler tells every process of a job
        raise Interrupted("an encoder process was asked to stop; run the same command to continue", 128 + SIGTERM)
    if code != 0:
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise SolfaError(
            f"an encoder process ended with {how}; committed shards are kept, run the same command to continue"
        )


def reported_error(report: Mapping[str, Any]) -> SolfaError:
    """Make the error that an encoder reports: one that a user can act on, or work that had to stop."""
    return (StoreError if report["is_expected"] else SolfaError)(report["message"])


def end_encoders(processes: Sequence[Process]) -> None:
    """Ask processes to stop after the batch they are in, and end those that do not."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()
