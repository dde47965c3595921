"""The losses of a game between a generator and several discriminators.

Logits come as one tensor per discriminator, high for what it judges real; features as one list of maps per
discriminator. All discriminators count the same, however many numbers they return.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from solfa.config import Config

EPSILON = 1e-8

Logits = Sequence[Float[Tensor, "..."]]
Features = Sequence[Sequence[Float[Tensor, "..."]]]


class Hinge(Config):
    """Push logits beyond 1 and -1 but no further; the generator raises them without limit.

    Lim and Ye 2017.

    >>> import torch
    >>> from solfa.ops import Hinge
    >>> real, fake = [torch.full((1, 1, 4, 4), 0.5)], [torch.full((1, 1, 4, 4), -2.0)]
    >>> Hinge().discriminator_loss(real, fake), Hinge().generator_loss(fake)
    (tensor(0.5000), tensor(2.))
    """

    kind: Literal["hinge"] = "hinge"

    def discriminator_loss(self, real: Logits, fake: Logits) -> Float[Tensor, ""]:
        """Average `max(0, 1 - D(real)) + max(0, 1 + D(fake))`."""
        return _mean(lambda logits: (1.0 - logits).relu(), real) + _mean(lambda logits: (1.0 + logits).relu(), fake)

    def generator_loss(self, fake: Logits) -> Float[Tensor, ""]:
        """Average `-D(fake)`."""
        return _mean(torch.neg, fake)


class LeastSquares(Config):
    """Pull logits to 1 for real sounds and to 0 for fakes (Mao et al. 2017).

    >>> import torch
    >>> from solfa.ops import LeastSquares
    >>> real, fake = [torch.full((1, 1, 4, 4), 0.5)], [torch.full((1, 1, 4, 4), -2.0)]
    >>> LeastSquares().discriminator_loss(real, fake), LeastSquares().generator_loss(fake)
    (tensor(4.2500), tensor(9.))
    """

    kind: Literal["least_squares"] = "least_squares"

    def discriminator_loss(self, real: Logits, fake: Logits) -> Float[Tensor, ""]:
        """Average `(D(real) - 1) ** 2 + D(fake) ** 2`."""
        return _mean(lambda logits: (logits - 1.0).square(), real) + _mean(torch.square, fake)

    def generator_loss(self, fake: Logits) -> Float[Tensor, ""]:
        """Average `(D(fake) - 1) ** 2`."""
        return _mean(lambda logits: (logits - 1.0).square(), fake)


AnyAdversarialLoss = Annotated[Hinge | LeastSquares, Field(discriminator="kind")]


def feature_matching_loss(real: Features, fake: Features) -> Float[Tensor, ""]:
    """Average the distance between fake and real maps, relative to the size of the real ones.

    As in EnCodec (Défossez et al. 2022): `mean |real - fake| / mean |real|`. The real maps get no gradient.

    >>> import torch
    >>> from solfa.ops import feature_matching_loss
    >>> real = [[torch.full((1, 8, 100), 2.0)]]  # one discriminator with one layer
    >>> fake = [[torch.full((1, 8, 100), 3.0)]]
    >>> feature_matching_loss(real, real), feature_matching_loss(real, fake)
    (tensor(0.), tensor(0.5000))
    """
    if [len(maps) for maps in real] != [len(maps) for maps in fake] or not real:
        raise ValueError("feature matching: expected the same maps for real and fake sounds, and at least one")
    ratios = [
        _mean_size(one.detach() - other) / (_mean_size(one.detach()) + EPSILON)
        for one_maps, other_maps in zip(real, fake, strict=True)
        for one, other in zip(one_maps, other_maps, strict=True)
    ]
    return torch.stack(ratios).mean()


def _mean_size(values: Float[Tensor, "..."]) -> Float[Tensor, ""]:
    """Average the absolute values; the gradient lies in memory as the values do (channels last, say).

    That of `abs().mean()` does not, and all layers before would read across memory. Row by row and in float32, because
    one sum over a map stops growing after 2^24 numbers, and overflows in float16.
    """
    precise = torch.promote_types(values.dtype, torch.float32)
    sizes: Tensor = torch.linalg.vector_norm(values, 1, dim=-1, dtype=precise)
    return sizes.mean() / values.shape[-1]


def _mean(of: Callable[[Tensor], Tensor], logits: Logits) -> Float[Tensor, ""]:
    if not logits:
        raise ValueError("adversarial loss: expected logits from at least one discriminator, found none")
    return torch.stack([of(found).mean() for found in logits]).mean()
