"""Keep encoders running until every planned shard is committed, here or by someone else."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from solfa.codecs.protocol import Codec
from solfa.encoding.failure_limit import FailureLimit
from solfa.encoding.placement import Encoders
from solfa.encoding.progress import Listener, Progress, Totals
from solfa.encoding.shard_pipeline import claim_shards, encode_claims
from solfa.encoding.worker_main import EncoderJob, made_by
from solfa.encoding.worker_pool import run_encoders
from solfa.environment.allocator import worker_environment
from solfa.files.stores.place import Place
from solfa.store.dataset import open_dataset
from solfa.store.layout import committed_shards
from solfa.store.lease import live_leases
from solfa.store.plan_file import ShardOfPlan, iterate_plan_columns, list_shards
from solfa.store.schema import DatasetInfo

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Run:
    """What stays the same while a dataset is being encoded."""

    root: Place
    info: DatasetInfo
    source_root: Place
    codec: Codec
    encoders: Encoders
    in_process: bool
    """The codec is an object that only this process has; otherwise encoder processes load the codec by its spec."""

    def job(self, index: int, count: int) -> EncoderJob:
        """Describe the work of one of `count` encoder processes."""
        rank = self.encoders.rank
        return EncoderJob(
            dest=str(self.root),
            source_root=str(self.source_root),
            codec=self.codec.spec,
            device=self.encoders.device_of(index),
            num_workers=self.encoders.num_workers,
            encoder=rank.rank * count + index,
            num_encoders=rank.world_size * count,
        )


def encode_until_committed(run: Run, failure_limit: FailureLimit, listener: Listener) -> Totals:
    """Encode what is missing; wait for shards that others have taken, and take over those they give up."""
    totals = Totals()
    planned = list_shards(run.root)
    missing = _missing(run.root, planned)
    clips, seconds = _size_of(run.root, missing, run.info.array.sample_rate)
    failed_before: set[str] = set()
    num_recordings = 0
    if failure_limit.is_set:
        failed_before = {failed.key for failed in open_dataset(run.root, partial=True).failures()}
        num_recordings = _count_recordings(run.root)

    def on_progress(progress: Progress) -> None:
        totals.add(progress, time.monotonic())
        listener.encoding(totals, clips, seconds)
        failure_limit.check(len(failed_before | totals.failed), num_recordings)

    while missing:
        taken = set(live_leases(run.root))
        free = [shard for shard in missing if shard.shard not in taken]
        if not free:
            listener.waiting()
            time.sleep(POLL_SECONDS)
        elif run.in_process:
            on_progress(Progress())
            _encode_here(run, on_progress)
        else:
            _encode_in_processes(run, min(run.encoders.count, len(free)), on_progress, listener)
        missing = _missing(run.root, planned)
    return totals


def _encode_here(run: Run, on_progress: Callable[[Progress], None]) -> None:
    device, rank = run.encoders.device, run.encoders.rank
    encode_claims(
        run.root,
        run.info,
        run.codec,
        claim_shards(run.root, run.info, rank.rank, rank.world_size),
        run.source_root,
        num_workers=0,
        made_by=made_by(device),
        device=device,
        emit=on_progress,
    )


def _encode_in_processes(run: Run, count: int, on_progress: Callable[[Progress], None], listener: Listener) -> None:
    listener.loading(count)
    on_cpu = run.encoders.device == "cpu"
    bf16 = on_cpu and run.codec.description.get("precision") == "bf16"
    environment = worker_environment(os.environ, one_thread=on_cpu, bf16=bf16)
    run_encoders([run.job(index, count) for index in range(count)], environment, on_progress, listener.waiting)


def _missing(root: Place, planned: list[ShardOfPlan]) -> list[ShardOfPlan]:
    done = set(committed_shards(root))
    return [shard for shard in planned if shard.shard not in done]


def _count_recordings(root: Place) -> int:
    return len({key for columns in iterate_plan_columns(root, ["key"]) for key in columns["key"]})


def _size_of(root: Place, missing: list[ShardOfPlan], sample_rate: int) -> tuple[int, float]:
    """Count the clips and seconds of audio in some shards."""
    wanted = {shard.shard for shard in missing}
    samples = sum(
        sum(columns["num_samples"])
        for shard, columns in enumerate(iterate_plan_columns(root, ["num_samples"]))
        if shard in wanted
    )
    return sum(shard.num_clips for shard in missing), samples / sample_rate
