"""Encode shards with a codec: claim and decode ahead, encode in batches, write and commit behind.

    claims ──► decode processes ──► codec (this thread) ──► writer thread ──► commit thread

The codec never waits for a file or for a server: the next shard is claimed and decoded while this one is being encoded,
this one is written in a separate thread, and the one before is hashed, synced or sent, and committed in another.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import torch

from solfa.codecs.protocol import Codec, is_pointwise
from solfa.encoding.encode_loop import EncodedBatch, encoded_batches
from solfa.encoding.progress import Progress
from solfa.encoding.read_ahead import WORK_AHEAD, WORK_AHEAD_FROM_AFAR, DecodeAhead, Decoded, ReadingLead, Target
from solfa.encoding.shard_claims import Claim, ClaimsAhead
from solfa.files.chunks import chunks
from solfa.files.crash_points import crash_point
from solfa.files.stores.place import Place
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import DatasetInfo
from solfa.store.shard_writer import Outcome, ShardWriter

OUTCOMES_BEHIND = 256
"""How many encoded clips may wait for the writer."""
CLIPS_TOGETHER, SECONDS_TOGETHER = 64, 0.1
"""Clips that are passed on together, and how long the first of them may wait: for a clip of a tenth of a second, to be
queued and reported takes longer than to be encoded."""


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
    readers: Executor | None = None,
    emit: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Encode and commit every claimed shard, with `fingerprints` of the content beside it.

    Audio is read by `readers` if there are any yet, which are ended then, and otherwise by `num_workers` new ones.
    """
    target = Target(source_root, codec.sample_rate, codec.num_channels, landmarks=fingerprints)
    is_near = isinstance(root, Path) and isinstance(source_root, Path)
    lead = ReadingLead(WORK_AHEAD if is_near else WORK_AHEAD_FROM_AFAR)
    with (
        ClaimsAhead(claims) as taken,
        Behind(root, info, made_by) as behind,
        DecodeAhead(target, num_workers, readers, lead) as ahead,  # ended first, while the last shard is committed
    ):
        encode = partial(encode_batch, codec, device=device)
        for batches in _together(encoded_batches(ahead, _places(taken, codec.sample_rate, lead), encode)):
            claim = batches[0].clips[0].label.claim
            outcomes = [outcome for batch in batches for outcome in batch.result]
            behind.write(claim, outcomes)
            progress = _progress(batches, outcomes, codec.sample_rate, claim.shard.shard)
            lead.add(progress.seconds, progress.codec_seconds, progress.wall_seconds)
            emit(progress)


EncodedClips = EncodedBatch[ClaimedClip, list[Outcome]]


def _together(batches: Iterable[EncodedClips]) -> Iterator[list[EncodedClips]]:
    """Gather batches of the same shard that take no time; the last of a shard waits for nothing, nor do failures."""
    gathered: list[EncodedClips] = []
    num_clips, seconds = 0, 0.0
    for batch in batches:
        gathered.append(batch)
        num_clips, seconds = num_clips + len(batch.clips), seconds + batch.wall_seconds
        label = batch.clips[-1].label
        is_urgent = label.batch + 1 == len(label.claim.batches) or any(one.audio is None for one in batch.clips)
        if is_urgent or num_clips >= CLIPS_TOGETHER or seconds >= SECONDS_TOGETHER:
            yield gathered
            gathered, num_clips, seconds = [], 0, 0.0
    assert not gathered, "the last batch of a shard is always passed on"


def _progress(batches: list[EncodedClips], outcomes: list[Outcome], sample_rate: int, shard: int) -> Progress:
    return Progress(
        clips=len(outcomes),
        failed=[outcome.clip.key for outcome in outcomes if outcome.array is None],
        seconds=sum(outcome.num_samples for outcome in outcomes if outcome.array is not None) / sample_rate,
        codec_seconds=sum(batch.codec_seconds for batch in batches),
        wall_seconds=sum(batch.wall_seconds for batch in batches),
        shard=shard,
    )


def _places(claims: ClaimsAhead, sample_rate: int, lead: ReadingLead) -> Iterator[tuple[ClaimedClip, PlannedClip]]:
    for claim in claims:
        left = sum(clip.num_samples for clip in claim.clips)
        for number, (start, stop) in enumerate(claim.batches):
            for index in range(start, stop):
                # Late, so that no encoder holds a shard which another one has nothing left to do but to wait for.
                if left <= lead.seconds_ahead * sample_rate:
                    claims.anticipate()
                left -= claim.clips[index].num_samples
                yield ClaimedClip(claim, number, index + 1 == stop), claim.clips[index]


def encode_batch(codec: Codec, batch: list[Decoded[ClaimedClip]], device: str) -> list[Outcome]:
    """Encode the clips of a batch that could be read; keep the reasons of the others."""
    readable = [decoded.audio for decoded in batch if decoded.audio is not None]
    arrays = iter(_encode_audio(codec, readable, device) if readable else ())
    outcomes = []
    for decoded in batch:
        if decoded.audio is None:
            outcomes.append(Outcome(decoded.clip, error=decoded.error))
        else:
            array, scale = next(arrays)
            num_samples = decoded.audio.shape[-1]
            outcomes.append(Outcome(decoded.clip, array, num_samples, scale, landmarks=decoded.landmarks))
    return outcomes


def _encode_audio(
    codec: Codec, audio: list[np.ndarray[Any, Any]], device: str
) -> Iterable[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None]]:
    """Encode clips of equal length, or of any lengths if the codec lets them be laid end to end."""
    if is_pointwise(codec):
        encoded = codec.encode(torch.from_numpy(np.concatenate(audio, axis=-1)[None]).to(device))
        ends = np.cumsum([clip.shape[-1] for clip in audio])
        return [(row, None) for row in np.split(encoded.array[0].cpu().numpy(), ends[:-1])]
    encoded = codec.encode(torch.from_numpy(np.stack(audio)).to(device))
    rows = encoded.array.cpu().numpy()
    scales = [None] * len(rows) if encoded.scales is None else encoded.scales.float().cpu().numpy()
    return zip(rows, scales, strict=True)


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
        """Queue outcomes of one shard; it is committed once all its clips are there."""
        self._raise_faults()
        for some in chunks(outcomes, CLIPS_TOGETHER):
            for _ in some:
                while not self._room.acquire(timeout=1.0):
                    self._raise_faults()
            self._futures.append(self._pool.submit(self._write, claim, some))

    def _write(self, claim: Claim, outcomes: list[Outcome]) -> None:
        self._room.release(len(outcomes))
        if self._is_broken:
            return  # what is queued behind a fault belongs to no shard that could still be whole
        try:
            if self._writer is None:
                self._writer = ShardWriter(self._root, claim.shard.shard, self._info.array, self._made_by)
                self._written = 0
            for outcome in outcomes:
                self._writer.add(outcome)
            self._written += len(outcomes)
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
