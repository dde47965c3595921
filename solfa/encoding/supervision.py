"""Keep encoders running until every planned shard is committed, here or by someone else."""

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from solfa.codecs.codec_memory import CodecFacts
from solfa.encoding.executors.local_executor import LocalExecutor
from solfa.encoding.executors.protocol import Executor
from solfa.encoding.failure_limit import FailureLimit
from solfa.encoding.placement import Encoders
from solfa.encoding.progress import Listener, Progress
from solfa.encoding.shard_claims import claim_shards
from solfa.encoding.shard_tallies import ShardTallies
from solfa.encoding.worker_main import EncoderJob, made_by
from solfa.files.stores.place import Place, whole_place
from solfa.store.dataset import open_dataset
from solfa.store.layout import committed_shards
from solfa.store.lease import live_leases
from solfa.store.plan_file import ShardOfPlan, iterate_plan_columns, list_shards
from solfa.store.schema import DatasetInfo

if TYPE_CHECKING:
    from solfa.codecs.protocol import Codec

POLL_SECONDS = 0.5
LOOK_SECONDS, LOOK_SHARE = 1.0, 0.02
"""How often, and for which share of the time at most, to look whether everything is committed."""


@dataclass(frozen=True)
class SupervisedRun:
    """What stays the same while a dataset is being encoded."""

    root: Place
    info: DatasetInfo
    source_root: Place
    codec: "Codec | CodecFacts"
    """Itself, or what is remembered of it: who encodes elsewhere loads it there."""
    encoders: Encoders
    in_process: bool
    """The codec is an object that only this process has; otherwise encoder processes load the codec by its spec."""
    executor: Executor = field(default_factory=LocalExecutor)
    """Who runs the encoder processes."""
    fingerprints: bool = False
    """Also store what every clip sounds like."""

    def job(self, index: int, count: int) -> EncoderJob:
        """Describe the work of one of `count` encoder processes."""
        turn = self.encoders.turn
        return EncoderJob(
            # Whole: who runs it may be in another folder.
            dest=str(whole_place(self.root)),
            source_root=str(whole_place(self.source_root)),
            codec=self.codec.spec,
            bf16=self.codec.description.get("precision") == "bf16",
            device=self.encoders.device_of(index),
            num_workers=self.encoders.num_workers,
            encoder=turn.number * count + index,
            num_encoders=turn.total * count,
            fingerprints=self.fingerprints,
        )


def encode_until_committed(run: SupervisedRun, failure_limit: FailureLimit, listener: Listener) -> ShardTallies:
    """Encode what is missing; wait for shards that others have taken, and take over those they give up."""
    planned = list_shards(run.root)
    missing = _missing(run.root, planned)
    watch = Watch(run, missing, failure_limit, listener)
    while missing:
        taken = set(live_leases(run.root))
        free = [shard for shard in missing if shard.shard not in taken]
        if not free:
            listener.waiting()
            time.sleep(POLL_SECONDS)
        elif run.in_process:
            watch.progress(0, Progress())
            _encode_here(run, watch)
        else:
            count = min(run.encoders.count, len(free))
            listener.loading(count)
            run.executor.run([run.job(index, count) for index in range(count)], watch)
        missing = _missing(run.root, planned)
    return watch.tallies


class Watch:
    """Sums up what encoders report, shows it to a listener, and stops a run in which too much fails."""

    def __init__(
        self, run: SupervisedRun, missing: list[ShardOfPlan], failure_limit: FailureLimit, listener: Listener
    ) -> None:
        self.tallies = ShardTallies()
        self._run, self._missing = run, missing
        self._listener, self._limit = listener, failure_limit
        self._next_look = 0.0
        self._clips, self._seconds = _size_of(run.root, missing, run.info.array.sample_rate)
        self._failed_before: set[str] = set()
        self._num_recordings = 0
        if failure_limit.is_set:
            self._failed_before = {failed.key for failed in open_dataset(run.root, partial=True).failures()}
            self._num_recordings = _count_recordings(run.root)

    def progress(self, encoder: int, progress: Progress) -> None:
        """Take in the report of an encoder."""
        self.tallies.add(encoder, progress)
        totals = self.tallies.totals
        self._listener.encoding(totals, self._clips, self._seconds)
        self._limit.check(len(self._failed_before | totals.failed), self._num_recordings)

    def waiting(self) -> None:
        """Let the listener look whether somebody wants to stop."""
        self._listener.waiting()

    def is_over(self) -> bool:
        """Look whether every shard is committed; not often, because with many shards that takes a while."""
        began = time.monotonic()
        if began < self._next_look:
            return False
        over = not _missing(self._run.root, self._missing)
        took = time.monotonic() - began
        self._next_look = began + took + max(LOOK_SECONDS, took / LOOK_SHARE)
        return over


def _encode_here(run: SupervisedRun, watch: Watch) -> None:
    from solfa.codecs.protocol import is_pointwise  # here, because torch takes longer to import than all the rest
    from solfa.encoding.shard_pipeline import encode_claims

    device, turn, codec = run.encoders.device, run.encoders.turn, run.codec
    assert not isinstance(codec, CodecFacts)
    encode_claims(
        run.root,
        run.info,
        codec,
        claim_shards(run.root, run.info, turn.number, turn.total, any_lengths=is_pointwise(codec)),
        run.source_root,
        num_workers=0,
        made_by=made_by(device),
        device=device,
        fingerprints=run.fingerprints,
        emit=partial(watch.progress, 0),
    )


def _missing(root: Place, planned: list[ShardOfPlan]) -> list[ShardOfPlan]:
    done = set(committed_shards(root))
    return [shard for shard in planned if shard.shard not in done]


def _count_recordings(root: Place) -> int:
    return len({key for columns in iterate_plan_columns(root, ["key"]) for key in columns["key"]})


def _size_of(root: Place, missing: list[ShardOfPlan], sample_rate: int) -> tuple[int, float]:
    """Count the clips and seconds of audio in some shards."""
    if not missing:
        return 0, 0.0
    wanted = {shard.shard for shard in missing}
    samples = sum(
        sum(columns["num_samples"])
        for shard, columns in enumerate(iterate_plan_columns(root, ["num_samples"]))
        if shard in wanted
    )
    return sum(shard.num_clips for shard in missing), samples / sample_rate
