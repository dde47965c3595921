"""Encode shards with a codec: claim, decode ahead, encode in batches, write and commit behind.

    claims ──► decode processes ──► codec (this thread) ──► writer thread ──► commit

The codec never waits for a file: the next shard is decoded while this one is being encoded, and writing, hashing and
syncing happen in a separate thread.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import torch

from solfa.audio.resampler import resampled_span
from solfa.codecs.protocol import Codec
from solfa.encoding.clip_plan import batch_bounds
from solfa.encoding.encode_loop import encoded_batches
from solfa.encoding.progress import Progress
from solfa.encoding.read_ahead import DecodeAhead, Decoded, Target
from solfa.errors import StoreError
from solfa.files.crash_points import crash_point
from solfa.files.stores.place import Place
from solfa.store.layout import committed_shards, is_committed
from solfa.store.lease import Lease
from solfa.store.plan_file import PlannedClip, ShardOfPlan, list_shards, read_shard_plan
from solfa.store.schema import DatasetInfo
from solfa.store.shard_writer import Outcome, ShardWriter

OUTCOMES_BEHIND = 256
"""How many encoded clips may wait for the writer."""


@dataclass(frozen=True)
class Claim:
    """A shard that this encoder has taken, and its batches as index ranges of the clips."""

    shard: ShardOfPlan
    clips: list[PlannedClip]
    batches: list[tuple[int, int]]
    lease: Lease


class ClaimedClip(NamedTuple):
    """A clip's claim, and the batch it belongs to."""

    claim: Claim
    batch: int
    is_last: bool


def claim_shards(root: Place, info: DatasetInfo, encoder: int, num_encoders: int) -> Iterator[Claim]:
    """Take shards that are neither committed nor taken, one after another, until there are none."""
    done = set(committed_shards(root))  # once: asking for each takes as many requests to an object store
    shards = [shard for shard in list_shards(root) if shard.shard not in done]
    first = len(shards) * encoder // num_encoders
    batch_seconds = float(info.parts.get("batch_seconds", 0.0))
    for shard in shards[first:] + shards[:first]:
        if is_committed(root, shard.shard):
            continue
        lease = Lease.take(root, shard.shard)
        if lease is None:
            continue
        if is_committed(root, shard.shard):  # committed between the check and the claim
            lease.release()
            continue
        crash_point("shard:claimed")
        try:
            clips = read_shard_plan(root, shard)
            _expect_encodable(root, shard, clips, info.array.sample_rate)
        except StoreError:
            lease.release()
            raise
        yield Claim(shard, clips, batch_bounds(clips, batch_seconds, info.array.sample_rate), lease)


def _expect_encodable(root: Place, shard: ShardOfPlan, clips: list[PlannedClip], sample_rate: int) -> None:
    """Refuse clips that were never meant to be encoded, and rows that contradict themselves or each other."""
    seen: set[str] = set()
    for clip in clips:
        if clip.id in seen:
            raise StoreError(
                f"{root}: the plan of shard {shard.shard:05d} is damaged: clip {clip.id!r} is planned twice; encode to "
                "another folder"
            )
        seen.add(clip.id)
        if clip.error is not None:
            continue
        if clip.source_sample_rate == 0:
            raise StoreError(
                f"{root}: shard {shard.shard:05d} was planned by a `solfa import` that did not finish; "
                "run that import again before encoding"
            )
        if clip.source_sample_rate > 0 and 0 <= clip.start < clip.stop <= clip.source_num_samples:
            first, last = resampled_span(clip.start, clip.stop, clip.source_sample_rate, sample_rate)
            if last - first == clip.num_samples:
                continue
        raise StoreError(
            f"{root}: the plan of shard {shard.shard:05d} is damaged: {clip.num_samples} samples cannot be "
            f"{clip.start} to {clip.stop} of {clip.id!r} at {clip.source_sample_rate} Hz"
        )


def encode_claims(
    root: Place,
    info: DatasetInfo,
    codec: Codec,
    claims: Iterator[Claim],
    source_root: Place,
    *,
    num_workers: int,
    made_by: Mapping[str, str],
    device: str = "cpu",
    emit: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Encode and commit every claimed shard."""
    target = Target(source_root, codec.sample_rate, codec.num_channels)
    with (
        Releasing(claims) as taken,
        DecodeAhead(target, num_workers) as ahead,
        Behind(root, info, made_by) as behind,
    ):
        encode = partial(encode_batch, codec, device=device)
        for batch in encoded_batches(ahead, _places(taken), encode):
            outcomes = batch.result
            claim = batch.clips[-1].label.claim
            behind.write(claim, outcomes)
            stored = [outcome for outcome in outcomes if outcome.array is not None]
            seconds = sum(outcome.num_samples for outcome in stored) / codec.sample_rate
            failed = [outcome.clip.key for outcome in outcomes if outcome.array is None]
            emit(Progress(len(outcomes), failed, seconds, batch.codec_seconds, batch.wall_seconds, claim.shard.shard))


class Releasing:
    """Passes claims on and, at the end of the context, releases those that were not finished."""

    def __init__(self, claims: Iterator[Claim]) -> None:
        self._claims = claims
        self._leases: list[Lease] = []  # not the claims, which hold the plan of their shards

    def __iter__(self) -> Iterator[Claim]:
        for claim in self._claims:
            self._leases.append(claim.lease)
            yield claim

    def __enter__(self) -> "Releasing":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lease in self._leases:
            lease.release()


def _places(claims: Iterable[Claim]) -> Iterator[tuple[ClaimedClip, PlannedClip]]:
    for claim in claims:
        for number, (start, stop) in enumerate(claim.batches):
            for index in range(start, stop):
                yield ClaimedClip(claim, number, index + 1 == stop), claim.clips[index]


def encode_batch(codec: Codec, batch: list[Decoded[ClaimedClip]], device: str) -> list[Outcome]:
    """Encode the clips of a batch that could be read; keep the reasons of the others."""
    readable = [decoded.audio for decoded in batch if decoded.audio is not None]
    arrays: Iterator[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]] = iter(())
    if readable:
        encoded = codec.encode(torch.from_numpy(np.stack(readable)).to(device))
        scales = None if encoded.scales is None else encoded.scales.float().cpu().numpy()
        rows = encoded.array.cpu().numpy()
        arrays = ((row, None if scales is None else scales[index]) for index, row in enumerate(rows))
    outcomes = []
    for decoded in batch:
        if decoded.audio is None:
            outcomes.append(Outcome(decoded.clip, error=decoded.error))
        else:
            array, scale = next(arrays)
            outcomes.append(Outcome(decoded.clip, array, decoded.audio.shape[-1], scale))
    return outcomes


class Behind:
    """Writes outcomes and commits shards in one thread, in order; an error there is raised at the next call here."""

    def __init__(self, root: Place, info: DatasetInfo, made_by: Mapping[str, str]) -> None:
        self._root, self._info, self._made_by = root, info, made_by
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._room = threading.Semaphore(OUTCOMES_BEHIND)
        self._futures: list[Future[None]] = []
        self._writer: ShardWriter | None = None
        self._written = 0

    def write(self, claim: Claim, outcomes: list[Outcome]) -> None:
        """Queue the outcomes of one batch; the shard is committed once all its clips are there."""
        self._raise_faults()
        for outcome in outcomes:
            while not self._room.acquire(timeout=1.0):
                self._raise_faults()
            self._futures.append(self._pool.submit(self._write, claim, outcome))

    def _write(self, claim: Claim, outcome: Outcome) -> None:
        self._room.release()
        if self._writer is None:
            self._writer = ShardWriter(self._root, claim.shard.shard, self._info.array, self._made_by)
            self._written = 0
        self._writer.add(outcome)
        self._written += 1
        if self._written == len(claim.clips):
            with self._writer:
                self._writer.commit()
            self._writer = None
            claim.lease.release()

    def _raise_faults(self) -> None:
        for future in [future for future in self._futures if future.done()]:
            self._futures.remove(future)
            future.result()

    def __enter__(self) -> "Behind":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)
        if self._writer is not None:  # interrupted inside a shard: drop its temporary files
            self._writer.__exit__(kind, error, trace)
        if kind is None:
            self._raise_faults()
