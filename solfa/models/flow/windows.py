"""Clips that are longer than what a flow model was trained on: windows that overlap, each continuing the one before.

    frames   0 ──────────────────── W                     the first window is drawn by itself
                          W-O ──────────────── 2W-O       O frames of the next are those of the first, exactly
                                        F-W ──────── F    the last one ends with the clip and shares what is left over

A frame is drawn once and never changed, so latents have no seam. What is given of a clip is given in every window.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from solfa.models.flow.generation import Start


class Window(NamedTuple):
    """A stretch of a clip, in frames."""

    start: int
    stop: int


DrawWindow = Callable[[Window, Start], Float[Tensor, "B W Z"]]
"""Draws the normalised latents of a window, given what is known of it."""


def plan_windows(num_frames: int, size: int, overlap: int) -> list[Window]:
    """Cover a clip with windows of one size; the last one may share more with the one before."""
    if num_frames <= size:
        return [Window(0, num_frames)]
    starts = [*range(0, num_frames - size, size - overlap), num_frames - size]
    return [Window(start, start + size) for start in starts]


def draw_in_windows(draw: DrawWindow, windows: list[Window], start: Start, like: Float[Tensor, "B Z T"]) -> Tensor:
    """Draw a batch of clips, window by window; `like` has their shape. Windows that are known already are skipped."""
    clip = torch.zeros_like(like) if start.given is None else start.given.clone()
    known = like.new_zeros(len(like), like.shape[2], dtype=torch.bool) if start.given_mask is None else start.given_mask
    known = known.clone()
    for window in windows:
        part = slice(window.start, window.stop)
        if bool(known[:, part].all()):
            continue
        within = Start(
            init=None if start.init is None else start.init[:, :, part],
            strength=start.strength,
            given=clip[:, :, part] if bool(known[:, part].any()) else None,
            given_mask=known[:, part],
        )
        clip[:, :, part] = draw(window, within)
        known[:, part] = True
    return clip
