"""Output heads: turn the numbers that a network produces for each sample into a distribution over its classes.

`categorical` reads them as one logit per class; `dml` as a discretised mixture of logistics: M logits, M means, M
log-scales, on a line that classes divide. Beside a linear path, that is the line of amplitudes, which the classes of a
mu-law grid divide unequally; otherwise it is bent so that they divide it equally. Training and generation use both
heads through the same protocol and never ask which one it is. Everything is computed in float32 under any autocast.
"""

import math
from typing import NamedTuple, Protocol, final, runtime_checkable

import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor, nn

from solfa.ops import logistic_mixture
from solfa.ops.class_grid import Grid, MulawGrid
from solfa.ops.temperature import TemperatureSemantics, check_temperature, draw_tempered, draw_uniforms

_INITIAL_STD = 0.05
"""The initial spread of what the last layer adds to its bias, for inputs of unit variance."""
_INITIAL_SCALES = (0.1, 0.3)
_CENTRED_SCALES = (1e-3, 3e-2)
_LOG_SMALLEST_SCALE = -4.0
"""In steps of the grid, the smallest if they differ. A component in the middle of a cell then has all but 3e-12 of its
mass in it: smaller scales would gain nothing, and their gradients grow with the inverse."""


@runtime_checkable
class OutputHead(Protocol):
    """Turns a network's output for each sample into a distribution over its classes."""

    num_classes: int
    num_parameters: int
    """How many numbers the network produces per sample."""
    num_uniforms: int
    """How many random numbers a draw takes."""

    def initialize(self, projection: nn.Linear) -> None:
        """Initialise the network's last layer so that training starts well."""
        ...

    def log_prob(self, outputs: Float[Tensor, "B N P"], classes: Int64[Tensor, "B N"]) -> Float32[Tensor, "B N"]:
        """Return the log-probability of each class in nats."""
        ...

    def loss(
        self, outputs: Float[Tensor, "B N P"], classes: Int64[Tensor, "B N"], mask: Bool[Tensor, "B N"] | None = None
    ) -> Float32[Tensor, ""]:
        """Average the nats over the samples that the mask keeps; the classes of the others make no difference."""
        ...

    def penalty(
        self, outputs: Float[Tensor, "B N P"], classes: Int64[Tensor, "B N"], mask: Bool[Tensor, "B N"] | None = None
    ) -> Float32[Tensor, ""]:
        """Return what training adds to the loss, and nobody reports."""
        ...

    def draw(
        self,
        outputs: Float[Tensor, "*B P"],
        generator: torch.Generator,
        temperature: float = 1.0,
        semantics: TemperatureSemantics = "heuristic",
    ) -> Int64[Tensor, "*B"]:
        """Draw classes; at temperature 0, the most probable ones."""
        ...

    def draw_with(
        self,
        outputs: Float[Tensor, "*B P"],
        uniforms: Float[Tensor, "*B U"],
        temperature: float = 1.0,
        semantics: TemperatureSemantics = "heuristic",
    ) -> Int64[Tensor, "*B"]:
        """Draw classes with numbers in (0, 1) that the caller drew."""
        ...

    def pmf(self, outputs: Float[Tensor, "*B P"]) -> Float32[Tensor, "*B V"]:
        """Return the probabilities of all classes."""
        ...

    def statistics(
        self, outputs: Float[Tensor, "B N P"], mask: Bool[Tensor, "B N"] | None = None
    ) -> dict[str, Float32[Tensor, ""]]:
        """Return metrics worth watching in training, averaged over the samples that the mask keeps."""
        ...


def mean_nats(
    head: OutputHead,
    outputs: Float[Tensor, "B N P"],
    classes: Int64[Tensor, "B N"],
    mask: Bool[Tensor, "B N"] | None = None,
) -> Float32[Tensor, ""]:
    """Average the nats of classes: the loss of every head."""
    return _mean(-head.log_prob(outputs, _known(classes, mask)), mask)


def no_penalty(
    head: OutputHead,
    outputs: Float[Tensor, "B N P"],
    classes: Int64[Tensor, "B N"],
    mask: Bool[Tensor, "B N"] | None = None,
) -> Float32[Tensor, ""]:
    """Add nothing to the loss."""
    return torch.zeros((), device=outputs.device)


def draw_classes(
    head: OutputHead,
    outputs: Float[Tensor, "*B P"],
    generator: torch.Generator,
    temperature: float = 1.0,
    semantics: TemperatureSemantics = "heuristic",
) -> Int64[Tensor, "*B"]:
    """Draw with the next numbers of a generator."""
    uniforms = draw_uniforms((*outputs.shape[:-1], head.num_uniforms), generator)
    return head.draw_with(outputs, uniforms, temperature, semantics)


class LogisticMixture(NamedTuple):
    """The parameters of a mixture of logistics, on the line from -1 (class 0) to 1 (the last class)."""

    logits: Float32[Tensor, "*B M"]
    means: Float32[Tensor, "*B M"]
    log_scales: Float32[Tensor, "*B M"]


@final
class CategoricalHead(nn.Module):
    """One logit per class; both temperature semantics are exact.

    >>> import torch
    >>> from solfa.models import CategoricalHead
    >>> head = CategoricalHead(num_classes=16)
    >>> outputs, classes = torch.zeros(1, 4, head.num_parameters), torch.full((1, 4), 8)
    >>> head.log_prob(outputs, classes)  # log(1 / 16) each
    tensor([[-2.7726, -2.7726, -2.7726, -2.7726]])
    """

    loss, penalty, draw = mean_nats, no_penalty, draw_classes
    num_uniforms = 1

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.num_classes = self.num_parameters = num_classes

    def initialize(self, projection: nn.Linear) -> None:
        """Start near equal probabilities."""
        _initialize(projection, torch.zeros(self.num_parameters))

    def log_prob(self, outputs: Float[Tensor, "B N P"], classes: Int64[Tensor, "B N"]) -> Float32[Tensor, "B N"]:
        with _without_autocast(outputs):
            return outputs.float().log_softmax(dim=-1).gather(-1, classes[..., None]).squeeze(-1)

    def draw_with(
        self,
        outputs: Float[Tensor, "*B P"],
        uniforms: Float[Tensor, "*B U"],
        temperature: float = 1.0,
        semantics: TemperatureSemantics = "heuristic",
    ) -> Int64[Tensor, "*B"]:
        check_temperature(temperature)
        return draw_tempered(outputs.float(), uniforms[..., 0], temperature)

    def pmf(self, outputs: Float[Tensor, "*B V"]) -> Float32[Tensor, "*B V"]:
        return outputs.float().softmax(dim=-1)

    @torch.no_grad()
    def statistics(
        self, outputs: Float[Tensor, "B N P"], mask: Bool[Tensor, "B N"] | None = None
    ) -> dict[str, Float32[Tensor, ""]]:
        """Return the `entropy` of the prediction, in nats."""
        return {"entropy": _mean(torch.special.entr(self.pmf(outputs)).sum(dim=-1), mask)}


@final
class DmlHead(nn.Module):
    """A discretised mixture of logistics: three numbers per component, whatever the number of classes.

    >>> import torch
    >>> from solfa.models import DmlHead
    >>> head = DmlHead(num_classes=65_536, num_mixtures=10)
    >>> outputs, classes = torch.zeros(1, 4, head.num_parameters), torch.full((1, 4), 32_768)
    >>> head.log_prob(outputs, classes).shape
    torch.Size([1, 4])
    """

    loss, draw = mean_nats, draw_classes

    def __init__(
        self, num_classes: int, num_mixtures: int, centred_on: Grid | None = None, moment_weight: float = 0.0
    ) -> None:
        """`centred_on` is the grid of a network with a linear path, which gives means around its prediction."""
        super().__init__()
        self.num_classes, self.num_mixtures = num_classes, num_mixtures
        self.grid, self.moment_weight = centred_on, moment_weight
        self.num_parameters, self.num_uniforms = 3 * num_mixtures, num_mixtures + 1
        self.is_centred = centred_on is not None
        self.borders: Tensor | None = None
        """Between the classes on the line of amplitudes; None if they divide the line equally."""
        steps_per_unit = (num_classes - 1) / 2
        if isinstance(centred_on, MulawGrid):
            with torch.device("cpu"):
                borders = centred_on.borders()
                self.borders, steps_per_unit = borders.float(), 1 / float(borders.diff().min())
        self.smallest_log_scale = _LOG_SMALLEST_SCALE - math.log(steps_per_unit)

    def mixture(self, outputs: Float[Tensor, "*B P"]) -> LogisticMixture:
        """Split the network's output; scales are clamped from below."""
        logits, means, log_scales = outputs.float().chunk(3, dim=-1)
        return LogisticMixture(logits, means, log_scales.clamp(min=self.smallest_log_scale))

    def initialize(self, projection: nn.Linear) -> None:
        """Start with equal weights, means spread over the line, and scales that grow with the distance from silence.

        Around a prediction, start with means on it and scales from narrow to wide.
        """
        places = (2 * torch.arange(self.num_mixtures) + 1) / self.num_mixtures - 1
        narrow, wide = (math.log(scale) for scale in (_CENTRED_SCALES if self.is_centred else _INITIAL_SCALES))
        if self.is_centred:
            log_scales, means = narrow + (wide - narrow) * (places + 1) / 2, torch.zeros_like(places)
        else:
            log_scales, means = narrow + (wide - narrow) * places.abs(), places
        _initialize(projection, torch.cat([torch.zeros_like(means), means, log_scales]))

    def log_prob(self, outputs: Float[Tensor, "B N P"], classes: Int64[Tensor, "B N"]) -> Float32[Tensor, "B N"]:
        with _without_autocast(outputs):
            mixture = self.mixture(outputs)
            if self.borders is None:
                return logistic_mixture.log_prob(*mixture, classes, self.num_classes)
            far = self.borders.new_tensor([logistic_mixture.FAR])
            ends = torch.cat([-far, self.borders, far]).to(outputs.device)
            outside = (classes < 0) | (classes >= self.num_classes)
            known = classes.masked_fill(outside, 0)
            found = logistic_mixture.interval_log_prob(*mixture, ends[known], ends[known + 1])
            return found.masked_fill(outside, torch.nan)

    def penalty(
        self, outputs: Float[Tensor, "B N P"], classes: Int64[Tensor, "B N"], mask: Bool[Tensor, "B N"] | None = None
    ) -> Float32[Tensor, ""]:
        """Score the mean and the variance of the mixture: the nats of a normal distribution that has both.

        A likelihood hardly minds a rare component that is far too wide; its draws are heard. This minds: it is least
        for the true mean and variance, and so takes nothing from a mixture that is right.
        """
        if not self.moment_weight or self.grid is None:
            return no_penalty(self, outputs, classes, mask)
        with _without_autocast(outputs):
            mean, variance = self.expected(outputs)
            errors = self.grid.to_audio(_known(classes, mask)) - mean
            return self.moment_weight * _mean((variance.log() + errors.square() / variance) / 2, mask)

    def expected(self, outputs: Float[Tensor, "B N P"]) -> logistic_mixture.Moments:
        """Return the mean and variance of the amplitudes to come; only a mixture with a linear path is about those."""
        assert self.grid is not None, "a mixture without a linear path is not on the line of amplitudes"
        with _without_autocast(outputs):
            mean, variance = logistic_mixture.moments(*self.mixture(outputs))
            # A class stands for all of its cell: what rounding adds to the variance.
            borders = self.grid.borders().to(outputs.device)
            widths = torch.cat([borders[1:2] - borders[:1], borders.diff(), borders[-1:] - borders[-2:-1]]).float()
            cells = self.grid.to_classes(mean.detach().clamp(-1, 1))
            return logistic_mixture.Moments(mean, variance + widths[cells].square() / 12)

    def draw_with(
        self,
        outputs: Float[Tensor, "*B P"],
        uniforms: Float[Tensor, "*B U"],
        temperature: float = 1.0,
        semantics: TemperatureSemantics = "heuristic",
    ) -> Int64[Tensor, "*B"]:
        mixture, how = self.mixture(outputs), (uniforms, temperature, semantics)
        if self.borders is None:
            return logistic_mixture.sample_with(*mixture, self.num_classes, *how)
        return logistic_mixture.interval_sample_with(*mixture, self.borders.to(outputs.device), *how)

    def pmf(self, outputs: Float[Tensor, "*B P"]) -> Float32[Tensor, "*B V"]:
        if self.borders is None:
            return logistic_mixture.pmf(*self.mixture(outputs), self.num_classes)
        return logistic_mixture.interval_pmf(*self.mixture(outputs), self.borders.to(outputs.device))

    @torch.no_grad()
    def statistics(
        self, outputs: Float[Tensor, "B N P"], mask: Bool[Tensor, "B N"] | None = None
    ) -> dict[str, Float32[Tensor, ""]]:
        """Return what to watch in a mixture, averaged over the samples that the mask keeps.

        `avg_scale` and `avg_mean` are averages over the components by their weights, on the line from -1 to 1, so a
        component that is switched off does not count. `mixture_entropy` is that of the weights, in nats: its
        exponential is the number of components in use. A large `edge_mass`, the probability of the two outermost
        classes, means that components have left the line.
        """
        mixture = self.mixture(outputs)
        weights = mixture.logits.softmax(dim=-1)
        first = torch.zeros(outputs.shape[:-1], dtype=torch.int64, device=outputs.device)
        edges = self.log_prob(outputs, first).exp() + self.log_prob(outputs, first + self.num_classes - 1).exp()
        return {
            "avg_scale": _mean((weights * mixture.log_scales.exp()).sum(dim=-1), mask),
            "avg_mean": _mean((weights * mixture.means).sum(dim=-1), mask),
            "mixture_entropy": _mean(torch.special.entr(weights).sum(dim=-1), mask),
            "edge_mass": _mean(edges, mask),
        }


def _without_autocast(outputs: Tensor) -> torch.autocast:
    return torch.autocast(outputs.device.type, enabled=False)


def _initialize(projection: nn.Linear, bias: Float[Tensor, "P"]) -> None:
    assert projection.out_features == len(bias), "the last layer must produce what the head reads"
    assert projection.bias is not None, "a head sets the bias of the last layer"
    nn.init.normal_(projection.weight, std=_INITIAL_STD / math.sqrt(projection.in_features))
    with torch.no_grad():
        projection.bias.copy_(bias)


def _known(classes: Int64[Tensor, "B N"], mask: Bool[Tensor, "B N"] | None) -> Int64[Tensor, "B N"]:
    """Replace padding, which need not be a valid class."""
    return classes if mask is None else classes.masked_fill(~mask, 0)


def _mean(values: Float32[Tensor, "B N"], mask: Bool[Tensor, "B N"] | None) -> Float32[Tensor, ""]:
    if mask is None:
        return values.mean()
    return values.masked_fill(~mask, 0).sum() / mask.sum().clamp(min=1)
