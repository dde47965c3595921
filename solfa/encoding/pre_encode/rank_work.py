"""The work of one rank: go through its batches, encode what is missing, write one batch behind the codec.

If anything of a batch is missing, the whole batch is decoded and encoded, always with the same items, so that an item
is bit-identical whenever it is encoded; only what is missing is written.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from solfa.encoding.encode_loop import encoded_batches
from solfa.encoding.pre_encode.item_json import ItemDescriber, recording_path
from solfa.encoding.pre_encode.item_list import read_items, read_lengths
from solfa.encoding.pre_encode.items import Slot, items_of_rank, slot_of
from solfa.encoding.pre_encode.out_layout import RankFolder
from solfa.encoding.pre_encode.padded_batch import BatchEncoder, EncodedItem
from solfa.encoding.pre_encode.summary import FailedItem
from solfa.encoding.progress import Listener, Progress, Totals
from solfa.encoding.read_ahead import DecodeAhead, Decoded, Target
from solfa.environment.ranks import Rank
from solfa.files.chunks import chunks
from solfa.store.planned_clip import PlannedClip


class ListedItem(NamedTuple):
    """Where an item is in the list, and whether it still has to be written."""

    item: int
    slot: Slot
    is_missing: bool
    is_last: bool
    """The last of its batch."""


DecodedBatch = list[Decoded[ListedItem]]


@dataclass
class Work:
    """The work of one rank: what it needs, and what it has done."""

    folder: RankFolder
    rank: Rank
    batch_size: int
    target: Target
    encoder: BatchEncoder
    describer: ItemDescriber
    listener: Listener
    totals: Totals = field(default_factory=Totals)
    failures: list[FailedItem] = field(default_factory=list)
    new_items: int = 0

    def run(self, num_workers: int) -> int:
        """Encode what is not stored yet of this rank's items; return how many it has."""
        stored = self.folder.stored()
        lengths = read_lengths(self.folder.out)
        own = list(items_of_rank(len(lengths), self.batch_size, self.rank.rank, self.rank.world_size))
        to_do = [item for item, slot in own if slot.id not in stored]
        seconds = float(lengths[to_do].sum()) / self.target.sample_rate
        self.listener.encoding(self.totals, len(to_do), seconds)
        with DecodeAhead(self.target, num_workers) as ahead, ThreadPoolExecutor(1, "writer") as writer:
            writing: Future[None] | None = None
            for batch in encoded_batches(ahead, self._places(stored), self._encode):
                if writing is not None:
                    writing.result()
                writing = writer.submit(self._write, batch.clips, batch.result)
                self._count(batch.clips, batch.codec_seconds, batch.wall_seconds)
                self.listener.encoding(self.totals, len(to_do), seconds)
            if writing is not None:
                writing.result()
        return len(own)

    def _places(self, stored: set[str]) -> Iterator[tuple[ListedItem, PlannedClip]]:
        """List the items of this rank's batches that are incomplete."""
        for number, items in enumerate(chunks(read_items(self.folder.out), self.batch_size)):
            if number % self.rank.world_size != self.rank.rank:
                continue
            first = number * self.batch_size
            slots = [slot_of(first + position, self.batch_size, self.rank.world_size) for position in range(len(items))]
            if all(slot.id in stored for slot in slots):
                continue
            for position, (slot, item) in enumerate(zip(slots, items, strict=True)):
                yield ListedItem(first + position, slot, slot.id not in stored, position + 1 == len(items)), item

    def _encode(self, batch: DecodedBatch) -> list[EncodedItem]:
        """Encode the readable items of a batch, unless there is nothing to write."""
        if not any(decoded.label.is_missing and decoded.audio is not None for decoded in batch):
            return []
        return self.encoder.encode([decoded.audio for decoded in batch if decoded.audio is not None])

    def _write(self, batch: DecodedBatch, encoded: list[EncodedItem]) -> None:
        readable = [decoded for decoded in batch if decoded.audio is not None]
        for decoded, item in zip(readable, encoded, strict=bool(encoded)):
            place = decoded.label
            if place.is_missing:
                description = self.describer.describe(place.item, decoded.clip, item.num_frames, item.scales)
                self.folder.store(place.slot, item.array, description)

    def _count(self, batch: DecodedBatch, codec_seconds: float, wall_seconds: float) -> None:
        missing = [decoded for decoded in batch if decoded.label.is_missing]
        failed = [decoded for decoded in missing if decoded.error is not None]
        written = [decoded for decoded in missing if decoded.error is None]
        seconds = sum(decoded.clip.num_samples for decoded in written) / self.target.sample_rate
        self.failures += [self._failure(decoded) for decoded in failed]
        self.new_items += len(written)
        keys = [decoded.clip.key for decoded in failed]
        progress = Progress(len(missing), keys, seconds, codec_seconds, wall_seconds)
        self.totals.add(progress, time.monotonic())

    def _failure(self, decoded: Decoded[ListedItem]) -> FailedItem:
        item = decoded.clip
        return FailedItem(
            id=decoded.label.slot.id,
            path=recording_path(self.target.root, item),
            relpath=self.describer.relpath(item),
            start_time=item.start / item.source_sample_rate if item.source_sample_rate else 0.0,
            error=decoded.error or "",
        )
