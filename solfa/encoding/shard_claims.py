"""Take shards that nobody else has: a lease on each, its plan, and the next one while the present one is encoded."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

from solfa.audio.resampler import resampled_span
from solfa.encoding.clip_plan import batch_bounds
from solfa.errors import StoreError
from solfa.files.crash_points import crash_point
from solfa.files.stores.place import Place
from solfa.store.layout import committed_shards, is_committed
from solfa.store.lease import Lease
from solfa.store.plan_file import ShardOfPlan, list_shards, read_shard_plan
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import DatasetInfo


@dataclass(frozen=True)
class Claim:
    """A shard that this encoder has taken, and its batches as index ranges of the clips."""

    shard: ShardOfPlan
    clips: list[PlannedClip]
    batches: list[tuple[int, int]]
    lease: Lease


def claim_shards(
    root: Place, info: DatasetInfo, encoder: int, num_encoders: int, *, any_lengths: bool = False
) -> Iterator[Claim]:
    """Take shards that are neither committed nor taken, one after another, until there are none.

    A batch has clips of equal length, or of `any_lengths` for a codec that takes them one sample at a time.
    """
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
        bounds = batch_bounds(clips, batch_seconds, info.array.sample_rate, any_lengths=any_lengths)
        yield Claim(shard, clips, bounds, lease)


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


class ClaimsAhead:
    """Passes claims on, takes the next one in a thread when told to, and in the end releases what was not finished."""

    def __init__(self, claims: Iterator[Claim]) -> None:
        self._claims = claims
        self._leases: list[Lease] = []  # not the claims, which hold the plan of their shards
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="claims")
        self._next: Future[Claim | None] | None = None

    def anticipate(self) -> None:
        """Begin to take the next shard: in an object store that takes several requests, which wait for each other."""
        if self._next is None:
            self._next = self._pool.submit(self._take)

    def _take(self) -> Claim | None:
        claim = next(self._claims, None)
        if claim is not None:
            self._leases.append(claim.lease)
        return claim

    def __iter__(self) -> Iterator[Claim]:
        while True:
            self.anticipate()
            assert self._next is not None
            claim, self._next = self._next.result(), None
            if claim is None:
                return
            yield claim

    def __enter__(self) -> "ClaimsAhead":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for lease in self._leases:
            lease.release()
