"""Balance several losses by their gradients at the decoder's output (Défossez et al. 2022, equation 6).

    gradient = total_norm * sum_i  w_i / (sum_j w_j)  *  g_i / <|g_i|>

g_i is the gradient of loss i with respect to the output and <|g_i|> the running average of its norm, so a weight is
a loss's share of the step, whatever its scale. The norm of a gradient is the sum of the Euclidean norms of all clips in
the batch. Losses are means over clips, so this norm is the same for any batch size, and a batch that is split among
several processes, with their norms averaged, gives the same step as the whole batch.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from solfa.config import Config, nearest

EPSILON = 1e-12
"""Avoids dividing by zero for a loss that never had a gradient."""

Average = Callable[[Float[Tensor, " L"]], Float[Tensor, " L"]]


class Balanced(NamedTuple):
    """The gradient to send back through the decoder, and what it was made from."""

    gradient: Float[Tensor, "B ..."]
    norms: Mapping[str, float]
    """The running average of the norm of each loss's gradient, before weighting."""


class BalancerConfig(Config):
    """How to balance losses; the weights are set where the losses are."""

    rescale: bool = True
    """False uses the plain weighted sum of the losses."""
    total_norm: float = Field(default=1.0, gt=0.0)
    ema_decay: float = Field(default=0.999, ge=0.0, le=1.0)
    """1 averages over all steps equally, 0 uses only the current step."""

    def build(self, weights: Mapping[str, float], average: Average | None = None) -> "Balancer":
        """Make a balancer; `average` is the mean over all processes."""
        return Balancer(
            weights,
            rescale=self.rescale,
            total_norm=self.total_norm,
            ema_decay=self.ema_decay,
            average=average,
        )


class Balancer:
    """Turns losses into one gradient; between steps, it remembers two numbers per loss.

    `weights` names every possible loss. Each step uses the losses it is given (a discriminator may start late), except
    those of weight zero.

    >>> import torch
    >>> from solfa.ops import Balancer
    >>> output = torch.ones(1, 4, requires_grad=True)
    >>> losses = {"small": output.sum(), "large": 1000 * (output[:, :2] - output[:, 2:]).sum()}
    >>> balanced = Balancer({"small": 1.0, "large": 1.0}).balance(losses, output)  # both count the same
    >>> balanced.gradient.abs().round(decimals=3)
    tensor([[0.5000, 0.5000, 0.0000, 0.0000]])
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        rescale: bool = True,
        total_norm: float = 1.0,
        ema_decay: float = 0.999,
        average: Average | None = None,
    ) -> None:
        for name, weight in weights.items():
            if not (math.isfinite(weight) and weight >= 0.0):
                raise ValueError(f"Balancer: expected a weight of at least 0 for {name!r}, found {weight}")
        self.weights = dict(weights)
        self.rescale, self.total_norm, self.ema_decay = rescale, total_norm, ema_decay
        self._average = average
        self._sums: dict[str, float] = {}
        self._counts: dict[str, float] = {}

    def balance(self, losses: Mapping[str, Float[Tensor, ""]], output: Float[Tensor, "B ..."]) -> Balanced:
        """Combine the gradients of the losses at `output`; each loss must depend on it.

        The graph between the output and the losses is used up. Follow with `output.backward(gradient)`, or with
        `loss_of_gradient` where a loss is expected. A norm that is not finite shows up in the gradient, where it will
        be noticed, but never enters the running averages.
        """
        weights = self._weights_of(losses)
        gradients = gradients_at(output, {name: losses[name] for name in weights})
        norms = torch.stack([clip_norms(gradient).sum() for gradient in gradients.values()])
        norms = norms if self._average is None else self._average(norms)
        averages = {name: self._observe(name, norm) for name, norm in zip(gradients, norms.tolist(), strict=True)}
        total_weight = sum(weights.values())
        combined = torch.zeros_like(output)
        for name, gradient in gradients.items():
            share = self.total_norm * weights[name] / total_weight / (averages[name] + EPSILON)
            combined.add_(gradient, alpha=share if self.rescale else weights[name])
        return Balanced(combined, averages)

    def state_dict(self) -> dict[str, Any]:
        """Return plain numbers."""
        return {"sums": dict(self._sums), "counts": dict(self._counts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from saved averages; the weights remain those of this run's config."""
        self._sums = {str(name): float(value) for name, value in state["sums"].items()}
        self._counts = {str(name): float(value) for name, value in state["counts"].items()}

    def _weights_of(self, losses: Mapping[str, Float[Tensor, ""]]) -> dict[str, float]:
        for name in losses:
            if name not in self.weights:
                known = ", ".join(sorted(self.weights))
                raise ValueError(
                    f"Balancer: there is no weight for the loss {name!r}, only for {known}{nearest(name, self.weights)}"
                )
        weights = {name: self.weights[name] for name in losses if self.weights[name] > 0.0}
        if not weights:
            raise ValueError(
                f"Balancer: expected a loss with a positive weight, found {', '.join(losses) or 'no loss'}"
            )
        return weights

    def _observe(self, name: str, norm: float) -> float:
        """Add a norm to its running average, which starts at the first norm instead of zero."""
        if math.isfinite(norm):
            self._sums[name] = self._sums.get(name, 0.0) * self.ema_decay + norm
            self._counts[name] = self._counts.get(name, 0.0) * self.ema_decay + 1.0
        return self._sums[name] / self._counts[name] if name in self._counts else norm


def gradients_at(
    output: Float[Tensor, "B ..."], losses: Mapping[str, Float[Tensor, ""]]
) -> dict[str, Float[Tensor, "B ..."]]:
    """Compute the gradient of each loss at the output and no further; free the graph after the last one."""
    gradients: dict[str, Tensor] = {}
    for count, (name, loss) in enumerate(losses.items(), start=1):
        gradient = None
        if loss.requires_grad and output.requires_grad:
            (gradient,) = torch.autograd.grad(loss, [output], retain_graph=count < len(losses), allow_unused=True)
        if gradient is None:
            raise ValueError(f"Balancer: the loss {name!r} must depend on the output, but does not")
        gradients[name] = gradient
    return gradients


def clip_norms(gradient: Float[Tensor, "B ..."]) -> Float[Tensor, " B"]:
    """Measure the Euclidean norm for each clip."""
    precision = torch.promote_types(gradient.dtype, torch.float32)
    norms: Tensor = torch.linalg.vector_norm(gradient.flatten(1), dim=1, dtype=precision)
    return norms


def loss_of_gradient(output: Float[Tensor, "B ..."], gradient: Float[Tensor, "B ..."]) -> Float[Tensor, ""]:
    """Make a number whose gradient at `output` is `gradient`, to add to other losses; its value is meaningless."""
    return (output * gradient.detach()).sum()
