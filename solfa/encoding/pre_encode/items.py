"""Decide, purely, which samples of a recording make an item, its id, and which rank encodes it.

    item of the list ──► global batch ──► rank = batch mod world size ──► id RRR BBBBBB IIII

Ids depend on the list, the batch size and the number of ranks, never on time or on the file system's order.
"""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from solfa.audio.recording import AudioInfo, Recording
from solfa.audio.resampler import resampled_span
from solfa.encoding.clip_plan import clip_id, clips_of
from solfa.store.planned_clip import PlannedClip

MAX_RANKS, MAX_BATCHES = 1_000, 1_000_000
"""Three and six digits of an id."""

Bounds = list[tuple[int, int]]
"""First sample and end (exclusive) in the recording, at its own rate."""


class Cut(NamedTuple):
    """How recordings become items."""

    sample_size: int
    sample_rate: int
    """The codec's."""
    random_crop: bool = False
    """Take one crop of each recording instead of all of it."""


class Slot(NamedTuple):
    """The place of an item: which rank encodes it, in which of its batches, at which position."""

    rank: int
    batch: int
    position: int

    @property
    def id(self) -> str:
        """Write it as 13 digits."""
        return f"{self.rank:03d}{self.batch:06d}{self.position:04d}"


def slot_of(item: int, batch_size: int, world_size: int) -> Slot:
    """Deal batches to ranks in turn."""
    batch, position = divmod(item, batch_size)
    return Slot(batch % world_size, batch // world_size, position)


def items_of_rank(num_items: int, batch_size: int, rank: int, world_size: int) -> Iterator[tuple[int, Slot]]:
    """List the items that a rank encodes, in order, by their index in the list."""
    for start in range(rank * batch_size, num_items, world_size * batch_size):
        for index in range(start, min(start + batch_size, num_items)):
            yield index, slot_of(index, batch_size, world_size)


def consecutive_bounds(num_samples: int, source_rate: int, cut: Cut) -> Bounds:
    """Cut a recording into spans of at most `sample_size` samples at the codec's rate that cover all of it.

    If no source sample falls on the end of an item, as when 16 kHz becomes 44.1 kHz, the item ends at the last one
    before it, and the few samples up to `sample_size` are padding: nothing is lost or stored twice.
    """
    bounds: Bounds = []
    total = resampled_span(0, num_samples, source_rate, cut.sample_rate)[1]
    start = 0
    while True:
        first = resampled_span(start, num_samples, source_rate, cut.sample_rate)[0]
        if first + cut.sample_size >= total:
            return [*bounds, (start, num_samples)]
        stop = (first + cut.sample_size) * source_rate // cut.sample_rate
        assert stop > start, (start, source_rate, cut)
        bounds.append((start, stop))
        start = stop


def crop_bounds(num_samples: int, source_rate: int, cut: Cut, fraction: float) -> Bounds:
    """Take one span of about `sample_size` samples; `fraction` from 0 to 1 says where."""
    total = resampled_span(0, num_samples, source_rate, cut.sample_rate)[1]
    if total <= cut.sample_size:
        return [(0, num_samples)]
    start = int(fraction * (total - cut.sample_size + 1)) * source_rate // cut.sample_rate
    first = resampled_span(start, num_samples, source_rate, cut.sample_rate)[0]
    return [(start, min(num_samples, (first + cut.sample_size) * source_rate // cut.sample_rate))]


def drawn_fraction(key: str) -> float:
    """Draw a number from 0 to 1 for a recording: always the same one, no matter who draws it and when."""
    return int.from_bytes(_hash("crop", key)[:6]) / (1 << 48)


def shuffle_key(item_id: str) -> bytes:
    """Return an item's place in the shuffled order."""
    return _hash("shuffle", item_id)


def _hash(purpose: str, text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16, person=purpose.encode()).digest()


def items_of(recording: Recording, info: AudioInfo | str, cut: Cut) -> Iterator[PlannedClip]:
    """List the items of one recording; if `info` is the reason why it cannot be read, that is one failed item."""
    (whole,) = clips_of(recording, info, 0.0, cut.sample_rate)
    if isinstance(info, str):
        yield whole
        return
    bounds = (
        crop_bounds(info.num_samples, info.sample_rate, cut, drawn_fraction(recording.key))
        if cut.random_crop
        else consecutive_bounds(info.num_samples, info.sample_rate, cut)
    )
    for start, stop in bounds:
        first, last = resampled_span(start, stop, info.sample_rate, cut.sample_rate)
        name = clip_id(recording.key, start, stop, info)
        yield replace(whole, id=name, start=start, stop=stop, num_samples=last - first)


def padding_mask(num_samples: int, hop_length: int, num_frames: int) -> list[int]:
    """Mark the frames that hold sound with 1: ceil(samples / hop length) of them."""
    valid = min(num_frames, -(-num_samples // hop_length))
    return [1] * valid + [0] * (num_frames - valid)
