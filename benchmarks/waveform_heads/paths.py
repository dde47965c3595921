"""Linear paths to compare with that the library does not have: one that is stable, and one whose numbers are bounded.

The library's path predicts with the weights c = a + s d W (solfa/models/sashimi/linear_path.py), where d, the network's
K numbers for a sample, may be anything. Nothing keeps the poles of 1 / (1 - c_1 z^-1 - ... - c_K z^-K) inside the unit
circle. `StablePath` gives the same filter by its reflection coefficients k, which are inside (-1, 1) if and only if the
poles are inside the unit circle:

    k = tanh(atanh(k0) + d G)        c = step_up(k)        step_up(k0) = a        G such that dc/dd = s W where d = 0

So it starts as the library's path does, with the same gradients; only where d leads to is another filter. With one d
for all samples every response decays. That is no promise about a filter that changes from sample to sample, nor about
one with most of its k near 1 (d of 3 in every direction): there the rounding of c in float64 moves poles that far.
`BoundedPath` is the library's path with b tanh(d / b) in the place of d.

The compiled kernel knows neither: draw with the network itself (`stepper_of`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from solfa.models import DmlHead, DmlHeadConfig, Sashimi
from solfa.models.sashimi.generation import EagerStepper, MakeStepper, fastest_stepper
from solfa.models.sashimi.linear_path import LinearPath, PastAmplitudes
from solfa.ops.class_grid import Grid

ORDER = DmlHeadConfig().prediction_order
LARGEST_REFLECTION = 1 - 1e-6
"""tanh gives 1 from 19 on, in float64."""
BOUND = 1.0
"""Less than some of the numbers that the library's path gets after 300 updates, which are up to 1.5."""


def step_up(reflections: Tensor) -> Tensor:
    """Turn reflection coefficients `[K, ...]` into the weights of a predictor, the latest amplitude's first."""
    predictor = reflections[:0]
    for reflection in reflections:
        predictor = torch.cat([predictor - reflection * predictor.flip(0), reflection[None]])
    return predictor


def step_down(predictor: Tensor) -> Tensor:
    """Turn the weights of a predictor into its reflection coefficients, `[K]`: the inverse of `step_up`."""
    reflections = []
    while len(predictor):
        rest, reflection = predictor[:-1], predictor[-1]
        reflections.append(reflection)
        predictor = (rest + reflection * rest.flip(0)) / (1 - reflection**2)
    return torch.stack(reflections[::-1])


class StablePath(LinearPath):
    """A linear path whose predictor has all its poles inside the unit circle, whatever the network says."""

    start: Tensor
    gain: Tensor

    def __init__(self, grid: Grid, order: int, dim: int) -> None:
        super().__init__(grid, order, dim)
        self.register_buffer("start", torch.zeros(order, dtype=torch.float64))
        self.register_buffer("gain", torch.eye(order, dtype=torch.float64))

    @torch.no_grad()
    def fit(self, recordings: Iterable[Tensor], projection: nn.Linear, num_mixtures: int) -> None:
        super().fit(recordings, projection, num_mixtures)
        # Least squares do not promise a stable filter, though recordings have always given one.
        fitted = step_down(self.coefficients.double()).clamp(-LARGEST_REFLECTION, LARGEST_REFLECTION)
        self.start.copy_(fitted.atanh())
        slopes = torch.stack(
            [
                torch.func.jvp(lambda raised: step_up(raised.tanh()), (self.start,), (direction,))[1]
                for direction in torch.eye(self.order, dtype=torch.float64)
            ]
        )  # row i is what the predictor gains with the i-th number under the tanh
        self.gain.copy_(torch.linalg.solve(slopes.T, self.error.double() * self.whitening.double().T).T)

    def reflections(self, turns: Tensor) -> Tensor:
        """Give the reflection coefficients `[K, ...]` that the network's numbers `[..., K]` mean."""
        raised = (turns.double() @ self.gain + self.start).movedim(-1, 0)
        return raised.tanh().clamp(-LARGEST_REFLECTION, LARGEST_REFLECTION)

    def centre(self, x: Tensor, heard: PastAmplitudes) -> Tensor:
        amplitudes = heard.windows.double().movedim(-1, 0)
        return (step_up(self.reflections(self.turns(x))) * amplitudes).sum(dim=0).to(x.dtype).clamp(-1, 1)


class BoundedPath(LinearPath):
    """A linear path that turns no further than `BOUND` in any direction."""

    def bounded(self, turns: Tensor) -> Tensor:
        """Give what is taken of the network's numbers."""
        return BOUND * (turns / BOUND).tanh()

    def centre(self, x: Tensor, heard: PastAmplitudes) -> Tensor:
        turned = (self.bounded(self.turns(x)) * (heard.windows @ self.whitening.T)).sum(dim=-1)
        return (heard.predictions.to(x.dtype) + self.error * turned).clamp(-1, 1)


@dataclass(frozen=True)
class StableDmlHeadConfig:
    """The library's mixture around a stable path."""

    kind: str = "dml-stable"

    def build(self, grid: Grid) -> DmlHead:
        return DmlHeadConfig().build(grid)

    def linear_path(self, grid: Grid, dim: int) -> StablePath:
        return StablePath(grid, ORDER, dim)


@dataclass(frozen=True)
class BoundedDmlHeadConfig:
    """The library's mixture around a bounded path."""

    kind: str = "dml-bounded"

    def build(self, grid: Grid) -> DmlHead:
        return DmlHeadConfig().build(grid)

    def linear_path(self, grid: Grid, dim: int) -> BoundedPath:
        return BoundedPath(grid, ORDER, dim)


def is_known_to_kernel(network: Sashimi) -> bool:
    """Say whether the compiled kernel draws what the network does: it takes every linear path for the library's."""
    return type(network.linear_path) in (LinearPath, type(None))


def stepper_of(network: Sashimi) -> MakeStepper:
    """Step with the kernel where it knows the network, and with the network itself otherwise, which is slower."""
    return fastest_stepper if is_known_to_kernel(network) else EagerStepper
