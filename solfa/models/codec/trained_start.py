"""Start a codec from one that Solfa trained: the same encoder and decoder, and another bottleneck if one is wanted.

A Gaussian that takes the place of quantisation starts where the codebooks are. With the mean m of what they decode to,
and its covariance U L U^T, both summed over the codebooks (whose residuals are taken as independent):

    means  = L^(-1/2) U^T (latents - m)        of about variance 1 and uncorrelated, as the divergence wants them
    latents = U L^(1/2) means + m              so with as many channels as the encoder has, nothing is lost

With fewer channels, those along which the codebooks vary most.
"""

import math

import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models.codec.bottlenecks import GaussianBottleneck, RvqBottleneck
from solfa.models.codec.network import CodecModel

START_SCALE = 0.1
"""The standard deviation that draws start with, where the means have about 1."""
_LEAST_VARIANCE = 1e-12
"""Of a direction, relative to the greatest: an unused one would be divided by zero."""


def start_from(model: CodecModel, trained: CodecModel, where: str) -> str:
    """Load what fits of a trained codec into `model`; say what became of the bottleneck."""
    for name in ("sample_rate", "num_channels", "network"):
        wanted, found = getattr(model.config, name), getattr(trained.config, name)
        if wanted != found:
            raise ConfigError(f"model.{name}: starting from {where} takes {found}, found {wanted}")
    if _shapes(model) == _shapes(trained):
        model.load_state_dict(trained.state_dict())
        return "its bottleneck, too"
    model.encoder.load_state_dict(trained.encoder.state_dict())
    model.decoder.load_state_dict(trained.decoder.state_dict())
    ours, theirs = model.bottleneck, trained.bottleneck
    if isinstance(ours, GaussianBottleneck) and isinstance(theirs, RvqBottleneck):
        dim = model.config.network.dim
        if ours.config.latent_channels <= dim and theirs.quantizer.codebooks.shape[-1] == dim:
            fit_to_codebooks(ours, theirs)
            return "the Gaussian starts where its codebooks are"
    return f"the bottleneck {ours.config.kind} starts fresh"


@torch.no_grad()
def fit_to_codebooks(gaussian: GaussianBottleneck, rvq: RvqBottleneck) -> None:
    """Set the projections so that what the codebooks decode to has means of variance 1, uncorrelated."""
    mean, covariance = codebook_moments(rvq.quantizer.codebooks, rvq.quantizer.counts)
    variances, directions = torch.linalg.eigh(covariance)
    keep = gaussian.config.latent_channels
    scales = variances.clamp_min(_LEAST_VARIANCE * float(variances[-1])).flip(0)[:keep].sqrt()
    directions = directions.flip(1)[:, :keep]
    whitening = directions.T / scales[:, None]
    gaussian.project_in.weight.copy_(torch.cat([whitening, torch.zeros_like(whitening)]))
    bias = math.log(math.expm1(START_SCALE))  # which softplus brings back
    gaussian.project_in.bias.copy_(torch.cat([-whitening @ mean, torch.full_like(scales, bias)]))
    gaussian.project_out.weight.copy_(directions * scales)
    # What is not kept stays at its mean.
    gaussian.project_out.bias.copy_(mean)


def codebook_moments(codebooks: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean `[D]` and covariance `[D, D]`, in float64, of sums of one entry per codebook, chosen as counted."""
    entries, shares = codebooks.double(), counts.double()
    shares = shares / shares.sum(-1, keepdim=True)
    means = torch.einsum("kv,kvd->kd", shares, entries)
    apart = entries - means[:, None]
    return means.sum(0), torch.einsum("kv,kvd,kve->de", shares, apart, apart)


def _shapes(model: CodecModel) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
