"""The part between encoder and decoder: residual vector quantization, finite scalars, or a Gaussian.

Each is a config that builds its module for latents of width D:

    forward(latents [B, D, T]) -> Bottlenecked     for training: gradients reach the latents
    encode(latents, num_codebooks) -> array        what a dataset stores: codes [B, T, K] or means [B, T, Z]
    decode(array, num_codebooks) -> latents        what the decoder reads

`encode` and `decode` draw nothing and change nothing, not even in training mode.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, final

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Int64
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from solfa.config import Config
from solfa.errors import ConfigError
from solfa.nn.residual_beam import Growth
from solfa.nn.rvq import ResidualVectorQuantizer

_KMEANS_ITERATIONS = 10
_SMALLEST_SCALE = 1e-4


class Bottlenecked(NamedTuple):
    """Latents as the decoder reads them in training, and the loss of getting there."""

    latents: Float[Tensor, "B D T"]
    codes: Int64[Tensor, "B T K"] | None
    """The codes of all codebooks; None for continuous latents."""
    loss: Float[Tensor, ""]
    """A weighted loss to add to the others; 0 if there is none."""
    metrics: Mapping[str, Float[Tensor, ""]]


class Rvq(Config):
    """Residual vector quantization with codebooks that follow the data.

    >>> import torch
    >>> from solfa.models import Rvq
    >>> bottleneck = Rvq(num_codebooks=4, codebook_size=32).build(dim=8).eval()
    >>> bottleneck.encode(torch.randn(1, 8, 10)).shape  # [B, T, K]
    torch.Size([1, 10, 4])
    """

    kind: Literal["rvq"] = "rvq"
    num_codebooks: PositiveInt = 8
    codebook_size: int = Field(default=1024, ge=2)
    codebook_dim: PositiveInt | None = None
    """The width in which vectors are compared; None uses the width of the latents, without projections."""
    dropout: float = Field(default=0.0, ge=0, le=1)
    """The share of clips in a training batch that are rebuilt from a random number of first codebooks."""
    decay: float = Field(default=0.99, ge=0, lt=1)
    """The decay of the running means that make up the entries."""
    commitment: float = Field(default=0.25, ge=0)
    """The weight of the distance between latents and their chosen entries."""
    expire_below: float = Field(default=0.1, ge=0, lt=1)
    """Replace entries chosen less often than this share of the mean; 0 replaces none."""
    kmeans_init: bool = True
    """Initialise the codebooks by k-means on the first training batch."""

    @property
    def latent_channels(self) -> None:
        return None

    def build(self, dim: int) -> "RvqBottleneck":
        return RvqBottleneck(self, dim)


class Fsq(Config):
    """Finite scalar quantization (arXiv 2309.15505), residual if there are several codebooks; nothing to learn.

    >>> import torch
    >>> from solfa.models import Fsq
    >>> levels = Fsq(levels=(8, 5, 5))
    >>> levels.codebook_size, levels.build(dim=8).eval().encode(torch.randn(1, 8, 10)).shape  # [B, T, K]
    (200, torch.Size([1, 10, 1]))
    """

    kind: Literal["fsq"] = "fsq"
    levels: tuple[Annotated[int, Field(ge=2)], ...] = Field(default=(8, 5, 5, 5), min_length=1)
    """The number of values of each scalar; a code is one of their product."""
    num_codebooks: PositiveInt = 1

    @property
    def codebook_size(self) -> int:
        return math.prod(self.levels)

    @property
    def latent_channels(self) -> None:
        return None

    def build(self, dim: int) -> "FsqBottleneck":
        return FsqBottleneck(self, dim)


class Gaussian(Config):
    """A variational bottleneck: a normal distribution per latent, drawn from in training.

    >>> import torch
    >>> from solfa.models import Gaussian
    >>> Gaussian(latent_channels=4).build(dim=8).eval().encode(torch.randn(1, 8, 10)).shape  # [B, T, Z]
    torch.Size([1, 10, 4])
    """

    kind: Literal["gaussian"] = "gaussian"
    latent_channels: PositiveInt = 64
    kl_weight: float = Field(default=1e-4, ge=0)
    """The weight of the divergence from a standard normal distribution, in nats per frame."""

    @property
    def num_codebooks(self) -> None:
        return None

    @property
    def codebook_size(self) -> None:
        return None

    def build(self, dim: int) -> "GaussianBottleneck":
        return GaussianBottleneck(self, dim)


BottleneckConfig = Annotated[Rvq | Fsq | Gaussian, Field(discriminator="kind")]


@final
class RvqBottleneck(nn.Module):
    """Residual vector quantization, between projections if the codebooks are narrower."""

    def __init__(self, config: Rvq, dim: int) -> None:
        super().__init__()
        self.config = config
        width = config.codebook_dim or dim
        self.project_in = nn.Identity() if width == dim else nn.Linear(dim, width)
        self.project_out = nn.Identity() if width == dim else nn.Linear(width, dim)
        self.quantizer = ResidualVectorQuantizer(
            config.num_codebooks,
            config.codebook_size,
            width,
            dropout=config.dropout,
            decay=config.decay,
            expire_below=config.expire_below,
            kmeans_iterations=_KMEANS_ITERATIONS if config.kmeans_init else 0,
        )

    def forward(self, latents: Float[Tensor, "B D T"]) -> Bottlenecked:
        # In half precision, distances would choose other codes than encoding does.
        with torch.autocast(latents.device.type, enabled=False):
            quantized = self.quantizer(self._vectors(latents))
            vectors = self.project_out(quantized.vectors)
        metrics = {"commitment": quantized.commitment.detach(), "replaced": quantized.replaced}
        loss = self.config.commitment * quantized.commitment
        return Bottlenecked(vectors.mT.to(latents.dtype), quantized.codes, loss, metrics)

    def encode(
        self,
        latents: Float[Tensor, "B D T"],
        num_codebooks: int | None = None,
        *,
        beam: int = 1,
        growths: Sequence[Growth] | None = None,
    ) -> Int64[Tensor, "B T K"]:
        """Choose codes of the first codebooks: the nearest one after the other, or the best that a beam finds."""
        check_num_codebooks(num_codebooks, self.config.num_codebooks)
        return self.quantizer.encode(self._vectors(latents), num_codebooks, beam=beam, growths=growths)

    def decode(self, array: Int[Tensor, "B T K"], num_codebooks: int | None = None) -> Float[Tensor, "B D T"]:
        """Sum the entries of the first codebooks."""
        codes = first_codes(array, num_codebooks, self.config)
        vectors: Tensor = self.project_out(self.quantizer.decode(codes))
        return vectors.mT

    def _vectors(self, latents: Float[Tensor, "B D T"]) -> Float[Tensor, "B T W"]:
        vectors: Tensor = self.project_in(latents.mT.to(self.quantizer.codebooks.dtype))
        return vectors


@final
class FsqBottleneck(nn.Module):
    """The residual FSQ of vector-quantize-pytorch, including its projections."""

    def __init__(self, config: Fsq, dim: int) -> None:
        super().__init__()
        # Importing it takes two seconds, which only those who use it should spend.
        from vector_quantize_pytorch import ResidualFSQ

        self.config = config
        self.quantizer: Any = ResidualFSQ(levels=list(config.levels), num_quantizers=config.num_codebooks, dim=dim)

    def forward(self, latents: Float[Tensor, "B D T"]) -> Bottlenecked:
        with torch.autocast(latents.device.type, enabled=False):
            vectors, codes = self.quantizer(self._vectors(latents))
        return Bottlenecked(vectors.mT.to(latents.dtype), codes.long(), vectors.new_zeros(()), {})

    def encode(self, latents: Float[Tensor, "B D T"], num_codebooks: int | None = None) -> Int64[Tensor, "B T K"]:
        """Round to codes of the first codebooks."""
        check_num_codebooks(num_codebooks, self.config.num_codebooks)
        _, codes = self.quantizer(self._vectors(latents))
        first: Tensor = codes[..., :num_codebooks].long()
        return first

    def decode(self, array: Int[Tensor, "B T K"], num_codebooks: int | None = None) -> Float[Tensor, "B D T"]:
        """Sum the values of the first codebooks' codes."""
        codes = first_codes(array, num_codebooks, self.config)
        # -1 marks an unused codebook; without it the library refuses fewer codes than codebooks.
        padded = F.pad(codes, (0, self.config.num_codebooks - codes.shape[-1]), value=-1)
        vectors: Tensor = self.quantizer.get_output_from_indices(padded)
        return vectors.mT

    def _vectors(self, latents: Float[Tensor, "B D T"]) -> Float[Tensor, "B T D"]:
        parameter = next(self.parameters(), latents)
        return latents.mT.to(parameter.dtype)


@final
class GaussianBottleneck(nn.Module):
    """Means and scales from a projection of the latents, and a projection back."""

    def __init__(self, config: Gaussian, dim: int) -> None:
        super().__init__()
        self.config = config
        self.project_in = nn.Linear(dim, 2 * config.latent_channels)
        self.project_out = nn.Linear(config.latent_channels, dim)

    def forward(self, latents: Float[Tensor, "B D T"]) -> Bottlenecked:
        means, scales = self.distribution(latents)
        drawn = means + scales * torch.randn_like(means) if self.training else means
        divergence = kl_to_standard_normal(means, scales).mean()
        metrics = {"kl": divergence.detach(), "scale": scales.detach().mean()}
        return Bottlenecked(self.project_out(drawn).mT, None, self.config.kl_weight * divergence, metrics)

    def encode(self, latents: Float[Tensor, "B D T"], num_codebooks: int | None = None) -> Float[Tensor, "B T Z"]:
        """Return the means."""
        check_num_codebooks(num_codebooks, None)
        return self.distribution(latents)[0]

    def decode(self, array: Float[Tensor, "B T Z"], num_codebooks: int | None = None) -> Float[Tensor, "B D T"]:
        """Project means, or draws, to the decoder's width."""
        check_num_codebooks(num_codebooks, None)
        vectors: Tensor = self.project_out(array.to(self.project_out.weight.dtype))
        return vectors.mT

    def distribution(self, latents: Float[Tensor, "B D T"]) -> tuple[Float[Tensor, "B T Z"], Float[Tensor, "B T Z"]]:
        """Return the mean and standard deviation of each latent."""
        means, raw = self.project_in(latents.mT).chunk(2, dim=-1)
        # A projection of strided memory rounds differently from one of the same means read from a file.
        return means.contiguous(), F.softplus(raw) + _SMALLEST_SCALE


Bottleneck = RvqBottleneck | FsqBottleneck | GaussianBottleneck


def kl_to_standard_normal(means: Float[Tensor, "*B Z"], scales: Float[Tensor, "*B Z"]) -> Float[Tensor, "*B"]:
    """Divergence of N(means, scales^2) from N(0, 1), in nats, summed over the components."""
    return 0.5 * (means.square() + scales.square() - 1).sum(-1) - scales.log().sum(-1)


def check_num_codebooks(num_codebooks: int | None, available: int | None) -> None:
    """Refuse a number of codebooks that the codec does not have."""
    if num_codebooks is None:
        return
    if available is None:
        raise ConfigError(f"codec: expected no num_codebooks for continuous latents, found {num_codebooks}")
    if not 1 <= num_codebooks <= available:
        raise ConfigError(f"codec: num_codebooks: expected 1 to {available}, found {num_codebooks}")


def first_codes(array: Int[Tensor, "B T K"], num_codebooks: int | None, config: Rvq | Fsq) -> Int64[Tensor, "B T k"]:
    """Take the codes of the first codebooks, and refuse values that are not codes."""
    check_num_codebooks(num_codebooks, config.num_codebooks)
    codes = array[..., :num_codebooks].long()
    if not 1 <= codes.shape[-1] <= config.num_codebooks:
        raise ConfigError(f"codec: expected codes from 1 to {config.num_codebooks} codebooks, found {codes.shape[-1]}")
    if codes.numel() and not 0 <= codes.min() <= codes.max() < config.codebook_size:
        raise ConfigError(
            f"codec: expected codes from 0 to {config.codebook_size - 1}, "
            f"found {int(codes.min())} to {int(codes.max())}; pass codes of this codec"
        )
    return codes
