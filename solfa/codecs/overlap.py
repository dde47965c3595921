"""Overlapping chunks of a waveform: where they are, and how decoded chunks are joined by cross-fading."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Chunks:
    """Chunks of `length` samples every `stride`; a single chunk if `length` is None."""

    num_samples: int
    length: int | None
    stride: int | None

    def spans(self) -> list[tuple[int, int]]:
        """Return the samples [start, stop) of every chunk; only the last ones may be shorter than `length`."""
        if self.length is None:
            return [(0, self.num_samples)]
        starts = range(0, self.num_samples, self.stride or self.length)
        return [(start, min(start + self.length, self.num_samples)) for start in starts]

    def num_frames(self, hop_length: int) -> list[int]:
        """Return the codec frames of every chunk."""
        return [-(-(stop - start) // hop_length) for start, stop in self.spans()]


def overlap_add(pieces: list[Float[Tensor, "B C _"]], chunks: Chunks) -> Float[Tensor, "B C N"]:
    """Join decoded chunks; where two overlap, one fades out linearly while the other fades in.

    The weight of a chunk is a triangle over the first one's decoded length, and sums are divided by the sum of weights.
    Pieces are cut to their spans first: a decoder rounds up to whole frames, beyond the end of the clip.
    """
    first = pieces[0]
    ramp = torch.linspace(0, 1, first.shape[-1] + 2, device=first.device, dtype=first.dtype)[1:-1]
    triangle = 0.5 - (ramp - 0.5).abs()
    total = first.new_zeros(*first.shape[:-1], chunks.num_samples)
    weights = first.new_zeros(chunks.num_samples)
    for piece, (start, stop) in zip(pieces, chunks.spans(), strict=True):
        weight = triangle[: stop - start]
        total[..., start:stop] += weight * piece[..., : stop - start]
        weights[start:stop] += weight
    return total / weights
