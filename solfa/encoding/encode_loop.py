"""The loop of every encoding run: wait for the audio of a whole batch, encode it, and say how long that took.

    clips, in order ──► decoded ahead ──► whole batches ──► codec ──► whoever writes them

A batch always has the composition that the plan gave it, whoever encodes it and however often a run was interrupted.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from solfa.encoding.read_ahead import DecodeAhead, Decoded
from solfa.store.planned_clip import PlannedClip


class Position(Protocol):
    """Where a clip stands in a run."""

    @property
    def is_last(self) -> bool:
        """Whether it is the last of its batch."""
        ...


P = TypeVar("P", bound=Position)
R = TypeVar("R")


class EncodedBatch(NamedTuple, Generic[P, R]):
    """A batch, what the codec made of it, and how long that took."""

    clips: list[Decoded[P]]
    result: R
    codec_seconds: float
    wall_seconds: float
    """Since the batch before; for the first, since there was something to encode."""


def encoded_batches(
    ahead: DecodeAhead, clips: Iterable[tuple[P, PlannedClip]], encode: Callable[[list[Decoded[P]]], R]
) -> Iterator[EncodedBatch[P, R]]:
    """Encode clips batch by batch; what could not be read is in its batch, with the reason and without audio."""
    batch: list[Decoded[P]] = []
    last: float | None = None
    for decoded in ahead.decode(clips):
        if last is None:
            last = time.monotonic()
        batch.append(decoded)
        if not decoded.label.is_last:
            continue
        started = time.monotonic()
        result = encode(batch)
        now = time.monotonic()
        yield EncodedBatch(batch, result, now - started, now - last)
        batch, last = [], now
