"""One encoder process: `python -m solfa.encoding.worker_main`, a job on standard input, reports on standard output.

It is a separate process so that it can start with the memory allocator set up for large activations, and so that
`solfa.encode` works from any script, notebook or thread. Jobs and reports are JSON, one value per line.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import nullcontext
from typing import Any

from solfa.config import Config
from solfa.environment.collector import collector_paused
from solfa.environment.faults import OUT_OF_MEMORY, fault_sentence, note_traceback
from solfa.environment.parent_watch import end_with_parent, leave_at_once
from solfa.environment.process_end import end_process
from solfa.errors import SolfaError
from solfa.version import __version__

STOPPED = 130
"""The exit code of a process that was asked to stop."""
ADVICE = {
    OUT_OF_MEMORY: "use fewer processes (`num_encoders`), or a new `dest` with less audio at once (`batch_seconds`)"
}
"""What helps an encoder that ran out of memory."""


class EncoderJob(Config):
    """Everything one encoder process needs to know."""

    dest: str
    source_root: str
    codec: str
    bf16: bool
    """The codec computes in bf16, which some processors only claim to do."""
    device: str
    num_workers: int
    encoder: int
    num_encoders: int
    fingerprints: bool = False


def made_by(device: str) -> dict[str, str]:
    """Describe what made a shard: the versions and the kind of device that its numbers depend on."""
    import soundfile
    import soxr
    import torch

    return {
        "solfa": __version__,
        "torch": torch.__version__,
        "libsndfile": soundfile.__libsndfile_version__,
        "soxr": soxr.__version__,
        "device": device.partition(":")[0],
    }


def run_job(job: EncoderJob, emit: Callable[[dict[str, Any]], None], readers: Executor | None = None) -> None:
    """Load the codec and encode every shard that can be claimed."""
    with collector_paused():
        import torch

        from solfa.codecs.catalogue import load_codec
        from solfa.codecs.protocol import is_pointwise
        from solfa.encoding.progress import Progress
        from solfa.encoding.shard_claims import Claim, claim_shards
        from solfa.encoding.shard_pipeline import encode_claims
        from solfa.errors import StoreError
        from solfa.files.stores.place import read_place
        from solfa.store.layout import read_info

    if job.device == "cpu":
        # One thread per process and one process per core: the numbers do not depend on how many cores there are.
        torch.set_num_threads(1)
    root = read_place(job.dest)
    info = read_info(root)
    codec = load_codec(job.codec, device=job.device)
    if codec.description != info.parts["codec"]:
        raise StoreError(f"{job.codec}: the codec changed while encoding; nothing was written with the new one")

    def report(progress: Progress) -> None:
        emit({"event": "progress", "progress": progress._asdict()})

    def claims() -> Iterator[Claim]:
        for claim in claim_shards(root, info, job.encoder, job.num_encoders, any_lengths=is_pointwise(codec)):
            try:
                emit({"event": "claimed", "shard": claim.shard.shard, "owner": claim.lease.owner})
            except BaseException:
                claim.lease.release()  # asked to stop: nobody else knows of it yet
                raise
            yield claim

    report(Progress())  # nothing yet, but the codec is loaded
    encode_claims(
        root,
        info,
        codec,
        claims(),
        read_place(job.source_root),
        num_workers=job.num_workers,
        made_by=made_by(job.device),
        device=job.device,
        fingerprints=job.fingerprints,
        readers=readers,
        emit=report,
    )


def _fork_readers(job: EncoderJob) -> Executor | None:
    """Fork the processes that read audio, if that is possible, after what they need is imported and before the rest."""
    import solfa.encoding.read_ahead  # noqa: F401
    from solfa.encoding.reader_pool import fork_readers

    return fork_readers(job.num_workers)


def main() -> int:
    """Run the job on standard input; every error is reported as one sentence."""
    job = EncoderJob.model_validate_json(sys.stdin.readline())
    readers = _fork_readers(job)
    # Libraries that write to standard output must not corrupt the reports.
    reports = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    # When asked to stop, finish the current batch first: not inside a library, nor while a process is starting.
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda signum, frame: stopping.set())
    end_with_parent(sys.stdin.read)  # which ends with the parent, even if that was killed

    speaking = threading.Lock()  # claims are reported by a thread of their own

    def say(event: dict[str, Any]) -> None:
        try:
            with speaking:
                print(json.dumps(event), file=reports)
        except BrokenPipeError:
            leave_at_once()  # the parent is gone, and nobody is left to encode for

    def emit(event: dict[str, Any]) -> None:
        say(event)
        if stopping.is_set():
            raise KeyboardInterrupt

    try:
        with readers or nullcontext():
            run_job(job, emit, readers)
    except Exception as error:
        say(error_report(error, job.dest))
        return 1
    except KeyboardInterrupt:
        return STOPPED
    return 0


def error_report(error: Exception, dest: str) -> dict[str, Any]:
    """Report an error as one sentence; the traceback of one that nobody expected goes into a log."""
    if isinstance(error, SolfaError):
        return {"event": "error", "message": str(error), "is_expected": True}
    if not isinstance(error, OSError):  # which says itself what is wrong with which file
        note_traceback(error, os.environ, "encode")
    return {"event": "error", "message": f"{dest}: {fault_sentence(error, ADVICE)}", "is_expected": False}


if __name__ == "__main__":
    end_process(main())
