"""DAC's encoder (arXiv 2306.06546) computed in pieces of time.

```
 audio -> [conv, stage] -> [stage] -> [stage] -> [stage] -> [snake, conv] -> latents
                            stage = three residual units (dilations 1, 3, 9), snake, downsampling convolution
```
The snake activation, four passes over memory in the plain module, is computed in the cache and in place.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from solfa.codecs.cpu.convolution import Padding, Placed, Stage, fold, run_stages


class Snake(NamedTuple):
    """x + sin^2(alpha x) / alpha, rounded operation by operation as the plain module rounds it."""

    alpha: Float[Tensor, "1 C 1"]
    inverse: Float[Tensor, "1 C 1"]

    def __call__(self, x: Float[Tensor, "1 C n"]) -> Float[Tensor, "1 C n"]:
        wave = torch.mul(x, self.alpha).sin_()
        return wave.mul_(wave).mul_(self.inverse).add_(x)


def read_snake(snake: Any) -> Snake:
    """Take the parameters out of a transformers `Snake1d`."""
    alpha = snake.alpha.detach()
    return Snake(alpha, (alpha + 1e-9).reciprocal())


@dataclass(frozen=True)
class DacCompute:
    """What a stage does to a piece; the convolutions arrive in the order of `Stage.convolutions`."""

    has_first: bool
    units: tuple[tuple[Snake, Snake], ...]
    last: Snake

    def __call__(self, x: Float[Tensor, "1 C n"], placed: Iterator[Placed]) -> Float[Tensor, "1 Z m"]:
        if self.has_first:
            x = next(placed)(x)
        for snake_in, snake_out in self.units:
            inner, outer = next(placed), next(placed)
            hidden = outer(snake_out(inner(snake_in(x))))
            skipped = outer.window.start - inner.window.start
            x = hidden.add_(x[..., skipped : skipped + hidden.shape[-1]])
        return next(placed)(self.last(x))


def read_stages(encoder: Any) -> list[Stage]:
    """Group the layers of a DAC encoder into stages that end in a convolution."""
    stages: list[Stage] = []
    convolutions = [encoder.conv1]
    for block in encoder.block:
        units = (block.res_unit1, block.res_unit2, block.res_unit3)
        convolutions += [conv for unit in units for conv in (unit.conv1, unit.conv2)] + [block.conv1]
        snakes = tuple((read_snake(unit.snake1), read_snake(unit.snake2)) for unit in units)
        stages.append(_stage(convolutions, DacCompute(not stages, snakes, read_snake(block.snake1))))
        convolutions = []
    stages.append(_stage([encoder.conv2], DacCompute(False, (), read_snake(encoder.snake1))))
    return stages


def _stage(convolutions: Sequence[nn.Conv1d], compute: DacCompute) -> Stage:
    paddings = [int(conv.padding[0]) for conv in convolutions]
    folded = [
        fold(conv, Padding(pad, pad, "constant", by_convolution=pad > 0))
        for conv, pad in zip(convolutions, paddings, strict=True)
    ]
    return Stage(tuple(folded), compute)


def fast_dac_encoder(encoder: nn.Module) -> Callable[[Float[Tensor, "B C N"]], Float[Tensor, "B Z T"]]:
    """Build a faster equivalent of the encoder of a transformers `DacModel`, from its current weights.

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
