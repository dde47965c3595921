"""Which samples a chain of convolutions must read to produce a piece of its output: arithmetic, no tensors.

```
 num_in samples        |------[start ............ stop)------|      the window
 padding at the clip's   pad_left                  pad_right        only where the window passes an end of the clip
 one convolution                \\  kernel, stride  /
 num_out frames        |----------[first .. last)------------|
```
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

ALIGNMENT = 16
"""Matrix products compute the columns beyond a multiple of this with different instructions; these are never kept,
unless they are also the last columns of the whole clip."""


@dataclass(frozen=True)
class Geometry:
    """How a convolution moves over time; the paddings are those of a clip of `num_in` samples."""

    span: int
    """Samples between the first and the last tap, both included."""
    stride: int
    num_in: int
    pad_left: int
    pad_right: int
    pads_itself: bool = False
    """The convolution applies its (symmetric, zero) padding to every piece, not only at the ends of the clip."""

    @property
    def num_out(self) -> int:
        return (self.num_in + self.pad_left + self.pad_right - self.span) // self.stride + 1


class InputWindow(NamedTuple):
    """The samples `[start, stop)` of a convolution's input, the padding that completes them, and what to drop."""

    start: int
    stop: int
    pad_left: int
    pad_right: int
    num_kept: int
    num_dropped: int = 0
    """Leading outputs that the convolution computes from its own padding inside the clip."""


def window_of(geometry: Geometry, first: int, last: int) -> InputWindow:
    """Find what the outputs `[first, last)` are computed from."""
    start = first * geometry.stride - geometry.pad_left
    stop = (last - 1) * geometry.stride + geometry.span - geometry.pad_left
    if geometry.pads_itself:
        reach = -(-geometry.pad_left // geometry.stride)
        begin = max(0, first - reach) // ALIGNMENT * ALIGNMENT
        end = -(-(last + reach) // ALIGNMENT) * ALIGNMENT
        stop = (end - 1) * geometry.stride + geometry.span - geometry.pad_left
        start, stop = begin * geometry.stride, min(stop, geometry.num_in)
        return InputWindow(start, stop, geometry.pad_left, geometry.pad_right, last - first, first - begin)
    pad_left, pad_right = max(-start, 0), max(stop - geometry.num_in, 0)
    return InputWindow(max(start, 0), min(stop, geometry.num_in), pad_left, pad_right, last - first)


def windows_of(chain: Sequence[Geometry], first: int, last: int) -> list[InputWindow]:
    """Find the window of each convolution of `chain` (in order), so that the last one yields `[first, last)`."""
    windows: list[InputWindow] = []
    for geometry in reversed(chain):
        window = window_of(geometry, first, last)
        first, last = window.start, window.stop
        windows.append(window)
    return windows[::-1]


def split_evenly(num_frames: int, num_frames_per_tile: int) -> list[tuple[int, int]]:
    """Cut `[0, num_frames)` into pieces of at most `num_frames_per_tile` whose lengths differ by at most one.

    A short last piece would go through a different convolution kernel than its neighbours, and round differently.
    """
    num_tiles = max(1, -(-num_frames // max(1, num_frames_per_tile)))
    edges = [num_frames * tile // num_tiles for tile in range(num_tiles + 1)]
    return list(pairwise(edges))
