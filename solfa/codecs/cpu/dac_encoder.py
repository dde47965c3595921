"""The encoders of DAC (arXiv 2306.06546) and of Oobleck, which copies it, computed in pieces of time.

```
 audio -> [conv, stage] -> [stage] -> [stage] -> [stage] -> [snake, conv] -> latents
                            stage = three residual units (dilations 1, 3, 9), snake, downsampling convolution
```
The snake activation, four passes over memory in the plain module, is computed in the cache and in place.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from solfa.codecs.cpu.convolution import FusedLayers, Padding, Placed, fold, run_stages
from solfa.codecs.cpu.exact_activations import ExactSnake, elu
from solfa.codecs.inference import clip_by_clip

Activation = Callable[[Float[Tensor, "1 C n"]], Float[Tensor, "1 C n"]]


def read_activation(module: Any) -> Activation:
    """Take the parameters out of a `Snake1d` of transformers, where alpha is beta, or of diffusers, as logarithms."""
    if isinstance(module, nn.ELU):
        return elu if module.alpha == 1 else module
    alpha = module.alpha.detach()
    if not hasattr(module, "beta"):
        return ExactSnake(alpha, (alpha + 1e-9).reciprocal())
    alpha, beta = (part.exp() if module.logscale else part for part in (alpha, module.beta.detach()))
    return ExactSnake(alpha, (beta + 1e-9).reciprocal())


@dataclass(frozen=True)
class DacCompute:
    """What a stage does to a piece; the convolutions arrive in the order of `FusedLayers.convolutions`."""

    has_first: bool
    units: tuple[tuple[Activation, Activation], ...]
    last: Activation

    def __call__(self, x: Float[Tensor, "1 C n"], placed: Iterator[Placed]) -> Float[Tensor, "1 Z m"]:
        if self.has_first:
            x = next(placed)(x)
        for before, between in self.units:
            inner, outer = next(placed), next(placed)
            hidden = between(inner(before(x)))
            skipped = outer.window.start - inner.window.start
            x = outer(hidden, x[..., skipped : skipped + outer.window.num_kept])
        return next(placed)(self.last(x))


def read_stages(encoder: Any) -> list[FusedLayers]:
    """Group the layers of an encoder into stages that end in a convolution."""
    stages: list[FusedLayers] = []
    convolutions = [encoder.conv1]
    for block in encoder.block:
        units = (block.res_unit1, block.res_unit2, block.res_unit3)
        convolutions += [conv for unit in units for conv in (unit.conv1, unit.conv2)] + [block.conv1]
        activations = tuple((read_activation(unit.snake1), read_activation(unit.snake2)) for unit in units)
        stages.append(_stage(convolutions, DacCompute(not stages, activations, read_activation(block.snake1))))
        convolutions = []
    stages.append(_stage([encoder.conv2], DacCompute(False, (), read_activation(encoder.snake1))))
    return stages


def _stage(convolutions: Sequence[nn.Conv1d], compute: DacCompute) -> FusedLayers:
    paddings = [int(conv.padding[0]) for conv in convolutions]
    folded = [
        fold(conv, Padding(pad, pad, "constant", by_convolution=pad > 0))
        for conv, pad in zip(convolutions, paddings, strict=True)
    ]
    return FusedLayers(tuple(folded), compute)


def fast_dac_encoder(encoder: nn.Module) -> Callable[[Float[Tensor, "B C N"]], Float[Tensor, "B Z T"]]:
    """Build a faster equivalent of the encoder of a `DacModel` or an `AutoencoderOobleck`, from its current weights.

    It computes no gradients. On other devices than the CPU and for dtypes below 32 bits, the encoder itself is
    returned; clips shorter than two frames are also passed to it, one by one.
    """
    if any(p.device.type != "cpu" or p.dtype not in (torch.float32, torch.float64) for p in encoder.parameters()):
        return encoder
    stages = read_stages(encoder)
    hop_length = prod(conv.stride[0] for conv in encoder.modules() if isinstance(conv, nn.Conv1d))

    @torch.no_grad()
    def encode(audio: Float[Tensor, "B C N"]) -> Float[Tensor, "B Z T"]:
        if audio.shape[-1] < 2 * hop_length:
            return torch.cat([encoder(clip) for clip in torch.split(audio, 1)])
        return run_stages(stages, audio)

    return encode


def fast_vae_encoder(encoder: nn.Module) -> Callable[[Float[Tensor, "B C N"]], Float[Tensor, "B Z T"]]:
    """Build a faster equivalent of the encoder of an autoencoder: Oobleck's, or a DAC's with a projection behind it.

    Where the fast one does not apply, it is the encoder itself, clip by clip on CPUs.
    """
    network, *projections = encoder if isinstance(encoder, nn.Sequential) else [encoder]
    fast = fast_dac_encoder(network)
    if fast is network:
        return clip_by_clip(encoder)
    project = nn.Sequential(*projections)
    return clip_by_clip(lambda audio: project(fast(audio)))
