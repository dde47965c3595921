"""Encode shards with a codec: claim and decode ahead, encode in batches, write and commit behind.

    claims ──► decode processes ──► codec (this thread) ──► writer thread ──► commit thread

The codec never waits for a file or for a server: the next shard is claimed and decoded while this one is being encoded,
this one is written in a separate thread, and the one before is hashed, synced or sent, and committed in another.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import torch

from solfa.codecs.protocol import Codec
from solfa.encoding.encode_loop import encoded_batches
from solfa.encoding.progress import Progress
from solfa.encoding.read_ahead import SECONDS_AHEAD, DecodeAhead, Decoded, Target
from solfa.encoding.shard_claims import Claim, ClaimsAhead
from solfa.files.crash_points import crash_point
from solfa.files.stores.place import Place
from solfa.store.plan_file import PlannedClip
from solfa.store.schema import DatasetInfo
from solfa.store.shard_writer import Outcome, ShardWriter

OUTCOMES_BEHIND = 256
"""How many encoded clips may wait for the writer."""


class ClaimedClip(NamedTuple):
    """A clip's claim, and the batch it belongs to."""

    claim: Claim
    batch: int
    is_last: bool


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
    fingerprints: bool = True,
    emit: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Encode and commit every claimed shard, with `fingerprints` of the content beside it."""
    target = Target(source_root, codec.sample_rate, codec.num_channels, landmarks=fingerprints)
    with (
        ClaimsAhead(claims) as taken,
        Behind(root, info, made_by) as behind,
        DecodeAhead(target, num_workers) as ahead,  # ended first, while the last shard is being committed
    ):
        encode = partial(encode_batch, codec, device=device)
        for batch in encoded_batches(ahead, _places(taken, codec.sample_rate), encode):
            outcomes = batch.result
            claim = batch.clips[-1].label.claim
            behind.write(claim, outcomes)
            stored = [outcome for outcome in outcomes if outcome.array is not None]
            seconds = sum(outcome.num_samples for outcome in stored) / codec.sample_rate
            failed = [outcome.clip.key for outcome in outcomes if outcome.array is None]
            emit(Progress(len(outcomes), failed, seconds, batch.codec_seconds, batch.wall_seconds, claim.shard.shard))


def _places(claims: ClaimsAhead, sample_rate: int) -> Iterator[tuple[ClaimedClip, PlannedClip]]:
    for claim in claims:
        left = sum(clip.num_samples for clip in claim.clips)
        for number, (start, stop) in enumerate(claim.batches):
            for index in range(start, stop):
                # Late, so that no encoder holds a shard which another one has nothing left to do but to wait for.
                if left <= SECONDS_AHEAD * sample_rate:
                    claims.anticipate()
                left -= claim.clips[index].num_samples
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
            num_samples = decoded.audio.shape[-1]
            outcomes.append(Outcome(decoded.clip, array, num_samples, scale, landmarks=decoded.landmarks))
    return outcomes


class Behind:
    """Writes outcomes in one thread and commits shards in another, in order; a fault is raised at the next call here.

    A shard is committed while the next one is written, and no third one is begun before: what is encoded and not
    committed takes the room of two shards on the disk, however slow the way to an object store is.
    """

    def __init__(self, root: Place, info: DatasetInfo, made_by: Mapping[str, str]) -> None:
        self._root, self._info, self._made_by = root, info, made_by
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="writer")
        self._commit_pool = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._commit: Future[None] | None = None
        self._is_broken = False
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
        if self._is_broken:
            return  # what is queued behind a fault belongs to no shard that could still be whole
        try:
            if self._writer is None:
                self._writer = ShardWriter(self._root, claim.shard.shard, self._info.array, self._made_by)
                self._written = 0
            self._writer.add(outcome)
            self._written += 1
            if self._written == len(claim.clips):
                self._commit_behind(claim, self._writer)
                self._writer = None
        except BaseException:
            self._is_broken = True
            raise

    def _commit_behind(self, claim: Claim, writer: ShardWriter) -> None:
        if self._commit is not None:
            self._commit.result()  # one at a time; if it failed, nothing is committed any more
        self._commit = self._commit_pool.submit(_commit, claim, writer)
        crash_point("shard:on-its-way")

    def _raise_faults(self) -> None:
        if self._commit is not None and self._commit.done():
            self._commit.result()
        for future in [future for future in self._futures if future.done()]:
            self._futures.remove(future)
            future.result()

    def __enter__(self) -> "Behind":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=kind is not None)
        self._commit_pool.shutdown(wait=True)
        if self._writer is not None:  # interrupted inside a shard: drop its temporary files
            self._writer.__exit__(kind, error, trace)
        if kind is None:
            self._raise_faults()


def _commit(claim: Claim, writer: ShardWriter) -> None:
    with writer:
        writer.commit()
    claim.lease.release()
