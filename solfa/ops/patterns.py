"""Codebook patterns: the order in which a language model reads and predicts the codes of a clip.

A layout says which frame codebook k has at step s, and -1 where it has none (the special token goes there).
Three codebooks and four frames:

    parallel    0 1 2 3      delay   0 1 2 3 . .      flat   0 . . 1 . . 2 . . 3 . .      coarse_first   0 1 2 3 . . . .
                0 1 2 3              . 0 1 2 3 .             . 0 . . 1 . . 2 . . 3 .                     . . . . 0 1 2 3
                0 1 2 3              . . 0 1 2 3             . . 0 . . 1 . . 2 . . 3                     . . . . 0 1 2 3

Every (frame, codebook) occurs exactly once in a layout, so a layout can be undone. The codes of one step are predicted
only from those of earlier steps, independently of each other: `flat` is exact but K times as long, `delay` (MusicGen,
arXiv 2306.05284) lets codebook k see codebook k - 1 of its frame at almost no cost.
"""

from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Int64
from pydantic import Field, field_validator
from torch import Tensor

from solfa.config import Config
from solfa.errors import ConfigError


class Parallel(Config):
    """All codebooks of a frame at once.

    >>> from solfa.ops import Parallel
    >>> Parallel().layout(num_codebooks=2, num_frames=3)
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """

    kind: Literal["parallel"] = "parallel"

    def layout(self, num_codebooks: int, num_frames: int) -> Int64[Tensor, "K S"]:
        return _shifted([0] * num_codebooks, num_frames)


class Delay(Config):
    """Each codebook some steps after the first.

    >>> from solfa.ops import Delay
    >>> Delay().layout(num_codebooks=3, num_frames=4)
    tensor([[ 0,  1,  2,  3, -1, -1],
            [-1,  0,  1,  2,  3, -1],
            [-1, -1,  0,  1,  2,  3]])
    """

    kind: Literal["delay"] = "delay"
    delays: tuple[int, ...] | None = None
    """Steps per codebook; None means 0, 1, 2, ..."""

    @field_validator("delays")
    @classmethod
    def _start_at_zero(cls, delays: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if delays is not None and (not delays or min(delays) != 0):
            raise ValueError("expected delays whose smallest is 0")
        return delays

    def of_codebooks(self, num_codebooks: int) -> tuple[int, ...]:
        """Return the delay of each codebook."""
        delays = tuple(range(num_codebooks)) if self.delays is None else self.delays
        if len(delays) != num_codebooks:
            raise ConfigError(
                f"pattern delay: expected one delay for each of the {num_codebooks} codebooks, "
                f"found {len(delays)} {list(delays)}; leave `delays` out for 0, 1, 2, ..."
            )
        return delays

    def layout(self, num_codebooks: int, num_frames: int) -> Int64[Tensor, "K S"]:
        return _shifted(self.of_codebooks(num_codebooks), num_frames)


class Flat(Config):
    """One codebook per step, all codebooks of a frame before the next frame.

    >>> from solfa.ops import Flat
    >>> Flat().layout(num_codebooks=2, num_frames=3)
    tensor([[ 0, -1,  1, -1,  2, -1],
            [-1,  0, -1,  1, -1,  2]])
    """

    kind: Literal["flat"] = "flat"

    def layout(self, num_codebooks: int, num_frames: int) -> Int64[Tensor, "K S"]:
        steps = torch.arange(num_codebooks * num_frames)
        turn = steps % num_codebooks == torch.arange(num_codebooks)[:, None]
        return torch.where(turn, steps // num_codebooks, -1)


class CoarseFirst(Config):
    """The first codebook of all frames, then the others in parallel.

    >>> from solfa.ops import CoarseFirst
    >>> CoarseFirst().layout(num_codebooks=3, num_frames=3)
    tensor([[ 0,  1,  2, -1, -1, -1],
            [-1, -1, -1,  0,  1,  2],
            [-1, -1, -1,  0,  1,  2]])
    """

    kind: Literal["coarse_first"] = "coarse_first"

    def layout(self, num_codebooks: int, num_frames: int) -> Int64[Tensor, "K S"]:
        return _shifted([0] + [num_frames] * (num_codebooks - 1), num_frames)


Pattern = Annotated[Parallel | Delay | Flat | CoarseFirst, Field(discriminator="kind")]


def frames_within(pattern: Parallel | Delay | Flat | CoarseFirst, num_codebooks: int, num_steps: int) -> int:
    """Count the frames that a pattern lays out in at most `num_steps` steps.

    >>> from solfa.ops import Delay, Flat, frames_within
    >>> frames_within(Flat(), num_codebooks=4, num_steps=992), frames_within(Delay(), num_codebooks=4, num_steps=992)
    (248, 989)
    """
    one, two = (pattern.layout(num_codebooks, num_frames).shape[1] for num_frames in (1, 2))
    return max(0, 1 + (num_steps - one) // (two - one))


def _shifted(delays: list[int] | tuple[int, ...], num_frames: int) -> Int64[Tensor, "K S"]:
    frames = torch.arange(num_frames + max(delays)) - torch.tensor(delays)[:, None]
    return torch.where((frames >= 0) & (frames < num_frames), frames, -1)


def lay_out(codes: Int64[Tensor, "B K T"], layout: Int64[Tensor, "K S"], special: int) -> Int64[Tensor, "B K S"]:
    """Put each code at its step, and `special` where a codebook has no frame.

    >>> import torch
    >>> from solfa.ops import Delay, lay_out, take_back
    >>> codes = torch.tensor([[[1, 2, 3], [4, 5, 6]]])  # [B, K, T]
    >>> layout = Delay().layout(num_codebooks=2, num_frames=3)
    >>> lay_out(codes, layout, special=0)
    tensor([[[1, 2, 3, 0],
             [0, 4, 5, 6]]])
    >>> torch.equal(take_back(lay_out(codes, layout, special=0), layout, num_frames=3), codes)
    True
    """
    tokens = codes.gather(2, layout.clamp(min=0).expand(len(codes), -1, -1))
    return torch.where(layout >= 0, tokens, special)


def take_back(
    tokens: Int64[Tensor, "B K S"], layout: Int64[Tensor, "K S"], num_frames: int
) -> Int64[Tensor, "B K {num_frames}"]:
    """Return the codes of the first `num_frames` frames: the inverse of `lay_out`.

    >>> import torch
    >>> from solfa.ops import Delay, lay_out, take_back
    >>> codes, layout = torch.tensor([[[1, 2, 3], [4, 5, 6]]]), Delay().layout(num_codebooks=2, num_frames=3)
    >>> take_back(lay_out(codes, layout, special=9), layout, num_frames=3)
    tensor([[[1, 2, 3],
             [4, 5, 6]]])
    """
    return tokens.gather(2, steps_of(layout, num_frames).expand(len(tokens), -1, -1))


def steps_of(layout: Int64[Tensor, "K S"], num_frames: int) -> Int64[Tensor, "K {num_frames}"]:
    """Return the step at which each codebook has each of the first `num_frames` frames.

    >>> from solfa.ops import Delay, steps_of
    >>> steps_of(Delay().layout(num_codebooks=2, num_frames=3), num_frames=3)
    tensor([[0, 1, 2],
            [1, 2, 3]])
    """
    # Sorted by frame, with the empty steps last, the first steps of a row are those of frames 0, 1, 2, ...
    empty_last = layout.masked_fill(layout < 0, torch.iinfo(layout.dtype).max)
    return empty_last.argsort(dim=1)[:, :num_frames]


def lay_out_mask(mask: Bool[Tensor, "B T"], layout: Int64[Tensor, "K S"]) -> Bool[Tensor, "B K S"]:
    """Return which steps have a real code: False where there is none, or only that of a padded frame.

    >>> import torch
    >>> from solfa.ops import Delay, lay_out_mask
    >>> layout = Delay().layout(num_codebooks=2, num_frames=3)
    >>> lay_out_mask(torch.tensor([[True, True, False]]), layout).int()  # the last frame is padding
    tensor([[[1, 1, 0, 0],
             [0, 1, 1, 0]]], dtype=torch.int32)
    """
    return mask[:, layout.clamp(min=0)] & (layout >= 0)
