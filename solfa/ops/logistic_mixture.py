"""A mixture of logistic distributions over classes: exact probabilities, and draws (PixelCNN++, arXiv 1701.05517).

Class k of C is at x = 2k/(C - 1) - 1 and owns a cell of half a step to both sides; the cells of the first and last
class extend to infinity. The cell from a to b holds this mass of a component with mean mu and scale s, where
p = (b - mu)/s and m = (a - mu)/s:

    sigmoid(p) - sigmoid(m) = sigmoid(p) sigmoid(-m) (1 - exp(-(p - m))).

The logarithm of the right side is a sum of three terms of the same sign: nothing cancels, no case needs a threshold or
a fallback, and neither value nor gradient ever becomes infinite. A border at infinity turns its factors into one.

Everything is computed in steps of the grid, counted from its middle: there, class borders are exact in float32 up to
C = 65,536, and mirroring a distribution mirrors its numbers. The only rounding left is converting a mean to steps, so a
result is exact for a mean within half a unit in the last place of the given one. To give every finite input a finite
value and gradient, means are clamped to 1e12 from zero and scales to between e^-40 and e^60 steps; beyond these limits
nothing changes, and gradients are zero.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor
from torch.nn.functional import logsigmoid

from solfa.errors import ConfigError
from solfa.ops.temperature import TemperatureSemantics, check_temperature, draw_tempered, draw_uniforms

__all__ = [
    "class_range_log_prob",
    "interval_log_prob",
    "interval_pmf",
    "interval_sample_with",
    "log_prob",
    "moments",
    "pmf",
    "sample",
    "sample_with",
]

MAX_EXACT_CLASSES = 1024
"""Exact temperatures need the probabilities of all classes; with more classes than this, that is too slow per draw."""

LARGEST_MEAN = 1e12
LOG_SCALE_LIMITS = (-40.0, 60.0)
FAR = 1e30
"""A border at infinity: even with the largest scale it is 8,700 scales away, where a sigmoid is one."""


class _Components(NamedTuple):
    """A mixture in steps of the grid, counted from its middle."""

    log_weights: Float[Tensor, "*B M"]
    means: Float[Tensor, "*B M"]
    log_scales: Float[Tensor, "*B M"]


def log_prob(
    logits: Float[Tensor, "*B M"],
    means: Float[Tensor, "*B M"],
    log_scales: Float[Tensor, "*B M"],
    classes: Int[Tensor, "*B"],
    num_classes: int,
) -> Float[Tensor, "*B"]:
    """Return the log-probability of each class in nats; means and scales are in units of x, from -1 to 1.

    >>> import torch
    >>> from solfa.ops.logistic_mixture import log_prob, pmf
    >>> logits, means, log_scales = torch.zeros(1, 2), torch.tensor([[-0.5, 0.5]]), torch.full((1, 2), -2.0)
    >>> nats = log_prob(logits, means, log_scales, torch.tensor([64]), num_classes=256)
    >>> torch.allclose(nats.exp(), pmf(logits, means, log_scales, num_classes=256)[:, 64])
    True
    """
    return class_range_log_prob(logits, means, log_scales, classes, classes, num_classes)


def class_range_log_prob(
    logits: Float[Tensor, "*B M"],
    means: Float[Tensor, "*B M"],
    log_scales: Float[Tensor, "*B M"],
    first: Int[Tensor, "*B"],
    last: Int[Tensor, "*B"],
    num_classes: int,
) -> Float[Tensor, "*B"]:
    """Return the log-probability of the classes `first` to `last`, inclusive, as one event.

    A number that is not a class, such as the -100 that pads a batch, gives NaN rather than a value to train on.

    >>> import torch
    >>> from solfa.ops.logistic_mixture import class_range_log_prob
    >>> mixture = torch.zeros(1, 1), torch.zeros(1, 1), torch.full((1, 1), -2.0)  # one component, around 0
    >>> upper_half = class_range_log_prob(*mixture, torch.tensor([128]), torch.tensor([255]), num_classes=256)
    >>> upper_half.exp()
    tensor([0.5000])
    """
    mixture = _in_steps(logits, means, log_scales, _steps_per_unit(num_classes))
    middle = (num_classes - 1) / 2
    # Decided by the class itself: at 16 bits, 33 classes on each side are within 0.001 of full scale.
    lower = (first - (middle + 0.5)).to(mixture.means.dtype).masked_fill(first == 0, -FAR)
    upper = (last - (middle - 0.5)).to(mixture.means.dtype).masked_fill(last == num_classes - 1, FAR)
    outside = (first < 0) | (last >= num_classes) | (first > last)
    return _log_mass(mixture, lower.masked_fill(outside, torch.nan), upper)


def interval_log_prob(
    logits: Float[Tensor, "*B M"],
    means: Float[Tensor, "*B M"],
    log_scales: Float[Tensor, "*B M"],
    lower: Float[Tensor, "*B"],
    upper: Float[Tensor, "*B"],
) -> Float[Tensor, "*B"]:
    """Return the log-probability that x, before rounding to a class, lies between borders that may be infinite.

    This gives the probabilities of another grid's cells, finer or coarser; the cells must not be empty.

    >>> import torch
    >>> from solfa.ops.logistic_mixture import interval_log_prob
    >>> mixture = torch.zeros(1, 1), torch.zeros(1, 1), torch.full((1, 1), -2.0)  # one component, around 0
    >>> interval_log_prob(*mixture, torch.tensor([0.0]), torch.tensor([torch.inf])).exp()
    tensor([0.5000])
    """
    mixture = _in_steps(logits, means, log_scales, 1.0)
    dtype = mixture.means.dtype
    return _log_mass(mixture, lower.to(dtype).clamp(-FAR, FAR), upper.to(dtype).clamp(-FAR, FAR))


class Moments(NamedTuple):
    """What a mixture of logistics expects, and how far from it on average, squared."""

    mean: Float[Tensor, "*B"]
    variance: Float[Tensor, "*B"]


def moments(logits: Float[Tensor, "*B M"], means: Float[Tensor, "*B M"], log_scales: Float[Tensor, "*B M"]) -> Moments:
    """Give the mean and the variance of a mixture on its line, before any class is chosen.

    >>> import torch
    >>> from solfa.ops.logistic_mixture import moments
    >>> moments(torch.zeros(2), torch.tensor([-1.0, 1.0]), torch.tensor([-2.0, -2.0]))
    Moments(mean=tensor(0.), variance=tensor(1.0603))
    """
    weights = logits.softmax(dim=-1)
    mean = (weights * means).sum(dim=-1)
    # A logistic distribution of scale s has a variance of (pi s)^2 / 3.
    spreads = (2 * log_scales).exp() * (math.pi**2 / 3) + (means - mean[..., None]).square()
    return Moments(mean, (weights * spreads).sum(dim=-1))


def pmf(
    logits: Float[Tensor, "*B M"],
    means: Float[Tensor, "*B M"],
    log_scales: Float[Tensor, "*B M"],
    num_classes: int,
) -> Float[Tensor, "*B {num_classes}"]:
    """Return the probabilities of all classes.

    >>> import torch
    >>> from solfa.ops.logistic_mixture import pmf
    >>> mixture = torch.zeros(1, 1), torch.zeros(1, 1), torch.full((1, 1), -2.0)  # one component, around 0
    >>> pmf(*mixture, num_classes=4).round(decimals=3)
    tensor([[0.0070, 0.4930, 0.4930, 0.0070]])
    """
    mixture = _in_steps(logits, means, log_scales, _steps_per_unit(num_classes))
    return _masses(mixture, torch.arange(1, num_classes, device=means.device) - num_classes / 2)


def interval_pmf(
    logits: Float[Tensor, "*B M"],
    means: Float[Tensor, "*B M"],
    log_scales: Float[Tensor, "*B M"],
    borders: Float[Tensor, "borders"],
) -> Float[Tensor, "*B V"]:
    """Return the probabilities of all cells between ascending borders; the outermost are infinite.

    >>> import torch
    >>> from solfa.ops.logistic_mixture import interval_pmf
    >>> mixture = torch.zeros(1, 1), torch.zeros(1, 1), torch.full((1, 1), -2.0)  # one component, around 0
    >>> interval_pmf(*mixture, borders=torch.tensor([-0.5, 0.0, 0.5])).round(decimals=3)
    tensor([[0.0240, 0.4760, 0.4760, 0.0240]])
    """
    return _masses(_in_steps(logits, means, log_scales, 1.0), borders)


def sample(
    logits: Float[Tensor, "*B M"],
    means: Float[Tensor, "*B M"],
    log_scales: Float[Tensor, "*B M"],
    num_classes: int,
    generator: torch.Generator,
    temperature: float = 1.0,
    semantics: TemperatureSemantics = "heuristic",
) -> Int64[Tensor, "*B"]:
    """Draw classes with a generator; `sample_with` does it with given numbers.

    >>> import torch
    >>> from solfa.ops.logistic_mixture import sample
    >>> mixture = torch.zeros(100, 1), torch.full((100, 1), 0.5), torch.full((100, 1), -5.0)  # around 0.5
    >>> classes = sample(*mixture, num_classes=256, generator=torch.Generator().manual_seed(0))
    >>> abs(classes.double().mean().item() - 191) < 2
    True
    """
    uniforms = draw_uniforms((*logits.shape[:-1], logits.shape[-1] + 1), generator)
    return sample_with(logits, means, log_scales, num_classes, uniforms, temperature, semantics)


def sample_with(
    logits: Float[Tensor, "*B M"],
    means: Float[Tensor, "*B M"],
    log_scales: Float[Tensor, "*B M"],
    num_classes: int,
    uniforms: Float[Tensor, "*B M+1"],
    temperature: float = 1.0,
    semantics: TemperatureSemantics = "heuristic",
) -> Int64[Tensor, "*B"]:
    """Draw classes with numbers in (0, 1): one per component to choose it, and one more to draw from it.

    The temperature `heuristic` divides the logits by T and multiplies the scales by T, for any number of classes. That
    differs from p^(1/T) if components overlap or have different scales. `exact` is p^(1/T).

    >>> import torch
    >>> from solfa.ops.logistic_mixture import sample_with
    >>> mixture = torch.zeros(3, 1), torch.full((3, 1), 0.25), torch.full((3, 1), -2.0)  # around 0.25
    >>> uniforms = torch.tensor([[0.5, 0.01], [0.5, 0.51], [0.5, 0.99]])
    >>> sample_with(*mixture, 256, uniforms), sample_with(*mixture, 256, uniforms, temperature=0.0)
    (tensor([ 80, 160, 239]), tensor([159, 159, 159]))
    """
    check_temperature(temperature)
    if temperature == 0:
        return pmf(logits, means, log_scales, num_classes).argmax(dim=-1)
    if semantics == "exact" and temperature != 1:
        return draw_tempered(_log_pmf(logits, means, log_scales, num_classes), uniforms[..., -1], temperature)
    mixture = _in_steps(logits, means, log_scales, _steps_per_unit(num_classes))
    steps = _place(mixture, uniforms, temperature)
    return (steps + num_classes / 2).floor().clamp(0, num_classes - 1).long()


def interval_sample_with(
    logits: Float[Tensor, "*B M"],
    means: Float[Tensor, "*B M"],
    log_scales: Float[Tensor, "*B M"],
    borders: Float[Tensor, "borders"],
    uniforms: Float[Tensor, "*B M+1"],
    temperature: float = 1.0,
    semantics: TemperatureSemantics = "heuristic",
) -> Int64[Tensor, "*B"]:
    """Draw cells between ascending borders; a border belongs to the cell above it.

    >>> import torch
    >>> from solfa.ops.logistic_mixture import interval_sample_with
    >>> mixture = torch.zeros(3, 1), torch.zeros(3, 1), torch.full((3, 1), -2.0)  # one component, around 0
    >>> uniforms = torch.tensor([[0.5, 0.01], [0.5, 0.6], [0.5, 0.99]])
    >>> interval_sample_with(*mixture, torch.tensor([-0.5, 0.0, 0.5]), uniforms)
    tensor([0, 2, 3])
    """
    check_temperature(temperature)
    if temperature == 0:
        return interval_pmf(logits, means, log_scales, borders).argmax(dim=-1)
    mixture = _in_steps(logits, means, log_scales, 1.0)
    if semantics == "exact" and temperature != 1:
        _check_exact(len(borders) + 1)
        ends = _with_ends(borders.to(mixture.means)).expand(*logits.shape[:-1], -1)
        cells = _Components(*(part[..., None, :] for part in mixture))
        return draw_tempered(_log_mass(cells, ends[..., :-1], ends[..., 1:]), uniforms[..., -1], temperature)
    return torch.bucketize(_place(mixture, uniforms, temperature), borders.to(mixture.means.dtype), right=True)


def _place(mixture: _Components, uniforms: Float[Tensor, "*B U"], temperature: float) -> Float[Tensor, "*B"]:
    """Draw a place on the line."""
    gumbel = -(-uniforms[..., :-1].log()).log()
    logistic = uniforms[..., -1:].logit()
    # logits / T + gumbel and logits + T gumbel have the same maximum, and the second is never infinite.
    chosen = (mixture.log_weights + temperature * gumbel.to(mixture.means)).argmax(dim=-1, keepdim=True)
    scale = temperature * mixture.log_scales.gather(-1, chosen).exp()
    return (mixture.means.gather(-1, chosen) + scale * logistic.to(mixture.means)).squeeze(-1)


def _masses(mixture: _Components, borders: Float[Tensor, "borders"]) -> Float[Tensor, "*B V"]:
    """Return the masses of all cells.

    The factors are multiplied, not exponentiated: a logarithm near -11, typical for 16 bits, has a rounding error of
    5e-7 itself.
    """
    borders = _with_ends(borders.to(mixture.means))
    steps, inverse = mixture.means[..., None], (-mixture.log_scales).exp()[..., None]
    below = torch.sigmoid((borders[1:] - steps) * inverse)
    above = torch.sigmoid((steps - borders[:-1]) * inverse)
    masses = below * above * -torch.expm1(-borders.diff() * inverse)
    return (mixture.log_weights.exp()[..., None] * masses).sum(dim=-2)


def _with_ends(borders: Float[Tensor, "borders"]) -> Float[Tensor, "ends"]:
    far = borders.new_tensor([FAR])
    return torch.cat([-far, borders, far])


def _check_exact(num_classes: int) -> None:
    if num_classes > MAX_EXACT_CLASSES:
        raise ConfigError(
            f"temperature: expected at most {MAX_EXACT_CLASSES} classes for exact semantics, found {num_classes}; "
            "use heuristic, or temperature 1"
        )


def _log_pmf(
    logits: Float[Tensor, "*B M"], means: Float[Tensor, "*B M"], log_scales: Float[Tensor, "*B M"], num_classes: int
) -> Float[Tensor, "*B {num_classes}"]:
    """Return the logarithms of all probabilities, including those that are zero in float32."""
    _check_exact(num_classes)
    shape = (*logits.shape[:-1], num_classes)
    logits, means, log_scales = (part[..., None, :].expand(*shape, -1) for part in (logits, means, log_scales))
    classes = torch.arange(num_classes, device=means.device).expand(shape)
    return log_prob(logits, means, log_scales, classes, num_classes)


def _steps_per_unit(num_classes: int) -> float:
    if not 2 <= num_classes <= 2**16:
        raise ConfigError(f"logistic mixture: expected 2 to 65536 classes, found {num_classes}")
    return (num_classes - 1) / 2


def _in_steps(
    logits: Float[Tensor, "*B M"], means: Float[Tensor, "*B M"], log_scales: Float[Tensor, "*B M"], steps: float
) -> _Components:
    dtype = torch.promote_types(means.dtype, torch.float32)
    return _Components(
        logits.to(dtype).log_softmax(dim=-1),
        means.to(dtype).clamp(-LARGEST_MEAN, LARGEST_MEAN) * steps,
        (log_scales.to(dtype) + math.log(steps)).clamp(*LOG_SCALE_LIMITS),
    )


def _log_mass(mixture: _Components, lower: Float[Tensor, "*B"], upper: Float[Tensor, "*B"]) -> Float[Tensor, "*B"]:
    inverse = (-mixture.log_scales).exp()
    below = logsigmoid((upper[..., None] - mixture.means) * inverse)
    above = logsigmoid((mixture.means - lower[..., None]) * inverse)
    width = (-torch.expm1((lower - upper)[..., None] * inverse)).log()
    # The first two are added first: mirroring swaps them, and the sum stays the same to the bit.
    return (mixture.log_weights + ((below + above) + width)).logsumexp(dim=-1)
