"""A clock that a model hears: where each step is in the beat and in the bar, for clips whose tempo is known.

    step * pulse = beats ──► sines and cosines of bars, of beats and of parts of a beat ──► vector

Position and tempo alone leave a product and a remainder to be learnt; their sinusoids leave a linear map.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

TURNS = (1 / 16, 1 / 8, 1 / 4, 1 / 3, 1 / 2, 1.0, 2.0, 3.0, 4.0)
"""Turns per beat: four bars of four beats, two, one, a bar of three, half a bar, a beat, and its parts."""


class PhaseProjection(nn.Linear):
    """A linear layer of its own kind: where the others get fewer bits for generating, this small one stays exact."""


class BeatClock(nn.Module):
    """Turns steps and pulses into vectors; zero where there is no pulse.

    >>> import torch
    >>> from solfa.nn.beat_clock import BeatClock
    >>> clock = BeatClock(8)
    >>> clock(torch.arange(5), torch.tensor([[0.02], [0.0]])).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.proj = PhaseProjection(2 * len(TURNS), dim, bias=False)

    def forward(self, steps: Int[Tensor, "S"], pulses: Float[Tensor, "B 1"]) -> Float[Tensor, "B S D"]:
        vectors: Tensor = self.proj(beat_phases(steps, pulses).to(self.proj.weight.dtype))
        return vectors


def beat_phases(steps: Int[Tensor, "S"], pulses: Float[Tensor, "B 1"]) -> Float[Tensor, "B S P"]:
    """Return sine and cosine of each of `TURNS`; both are zero where there is no pulse, which no angle gives."""
    beats = steps.float() * pulses.float()
    angles = 2 * math.pi * beats[..., None] * torch.tensor(TURNS, device=beats.device)
    phases = torch.cat([angles.sin(), angles.cos()], dim=-1)
    return phases.masked_fill((pulses == 0)[..., None], 0.0)
