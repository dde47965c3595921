"""Keys and values of the steps seen so far, for generation.

The caller creates the cache and passes it in; no module owns one, and training does without. (Keys that a module kept
from step to step would tie each backward pass to the graph of the one before.)
"""

import math

import torch
from jaxtyping import Float, Float32, Int8
from torch import Tensor

from solfa.environment.memory import expect_memory
from solfa.errors import ConfigError
from solfa.nn.kernels.memory_block import block_of

_MANY_BYTES = 1 << 22
_LARGEST, _SMALLEST_PEAK = 127, 1e-30
STEPS, SIDE = 16, 4
"""Of integers there is room for a multiple of so many steps, and the values of so many stand side by side: the kernel
reads them so."""


class KeyValueCache:
    """Preallocated keys and values per layer, for at most `max_steps` steps, and those of the cross-attention.

    One forward pass appends in every layer at `position` and then advances once. Prepended conditions count as steps.
    With `dtype=torch.int8`, the keys and values of each step and head are integers with a scale, and half as many bytes
    as in float16; those of the cross-attention, which are few, are float16 then.
    """

    def __init__(
        self,
        num_layers: int,
        batch_size: int,
        num_heads: int,
        max_steps: int,
        head_dim: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        is_integer = dtype == torch.int8
        num_steps = -(-max_steps // STEPS) * STEPS if is_integer else max_steps
        shape = (num_layers, batch_size, num_heads, num_steps, head_dim)
        num_scales = math.prod(shape[:4]) if is_integer else 0
        num_bytes = 2 * (math.prod(shape) * dtype.itemsize + num_scales * torch.float32.itemsize)
        if torch.device(device).type == "cpu":
            expect_memory(
                num_bytes, f"keys and values of {max_steps:,} steps", "generate fewer seconds, or fewer clips"
            )
        self.keys, self.values = (_zeros(shape, torch.device(device), dtype) for _ in range(2))
        self.scales: tuple[Tensor, Tensor] | None = None
        """Of keys and of values, [layer, row, head, step]; only integers have them."""
        if num_scales:
            key_scales, value_scales = (_zeros(shape[:4], torch.device(device), torch.float32) for _ in range(2))
            self.scales = key_scales, value_scales
        self.cross: list[tuple[Tensor, Tensor] | None] = [None] * num_layers
        """The cross-attention's keys and values of the condition, written by the first forward pass."""
        self.max_steps, self.position = max_steps, 0

    def append(
        self, layer: int, keys: Float[Tensor, "B H N E"], values: Float[Tensor, "B H N E"]
    ) -> tuple[Float[Tensor, "B H S E"], Float[Tensor, "B H S E"]]:
        """Append new steps to a layer and return all its steps so far: views, or what integers stand for."""
        self.expect_room(keys.shape[2])
        stop = self.position + keys.shape[2]
        if self.scales is None:
            self.keys[layer, :, :, self.position : stop] = self.rounded(keys)
            self.values[layer, :, :, self.position : stop] = self.rounded(values)
            return self.keys[layer, :, :, :stop], self.values[layer, :, :, :stop]
        key_scales, value_scales = (scales[layer] for scales in self.scales)
        return (
            _append_integers(self.keys[layer], key_scales, keys, self.position, 1),
            _append_integers(self.values[layer], value_scales, values, self.position, SIDE),
        )

    def rounded(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Round to the floats of the cache; what is too large becomes the largest of them."""
        dtype = torch.float16 if self.scales is not None else self.keys.dtype
        if x.dtype == dtype:
            return x
        largest = torch.finfo(dtype).max
        if largest < torch.finfo(x.dtype).max:
            x = x.clamp(-largest, largest)
        return x.to(dtype)

    def expect_room(self, num_steps: int) -> None:
        """Refuse more steps than there is room for."""
        stop = self.position + num_steps
        if stop > self.max_steps:
            raise ConfigError(
                f"key-value cache: expected at most {self.max_steps} steps, found {stop}; "
                "create it with as many steps as will be generated, including those of prepended conditions"
            )

    def advance(self, num_steps: int) -> None:
        """Count the steps that all layers have appended."""
        self.position += num_steps


def _append_integers(
    kept: Int8[Tensor, "B H S E"],
    scales: Float32[Tensor, "B H S"],
    x: Float[Tensor, "B H N E"],
    position: int,
    side: int,
) -> Float[Tensor, "B H P E"]:
    """Round new steps to integers, which are stored as [step / side, channel, side]; return what all stand for."""
    stop = position + x.shape[2]
    peaks = x.abs().amax(dim=-1).clamp(min=_SMALLEST_PEAK)
    scales[:, :, position:stop] = peaks / _LARGEST
    stored = kept.view(*kept.shape[:2], -1, kept.shape[3], side)[:, :, : -(-stop // side)]
    steps = stored.transpose(-1, -2).flatten(2, 3).clone()
    steps[:, :, position:stop] = (x * (_LARGEST / peaks)[..., None]).round()
    stored.copy_(steps.view(*steps.shape[:2], -1, side, steps.shape[3]).transpose(-1, -2))
    return steps[:, :, :stop] * scales[:, :, :stop, None]


def _zeros(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Allocate zeros; many of them on a CPU in large pages, from which one core reads twice as fast."""
    num_bytes = math.prod(shape) * dtype.itemsize
    if device.type != "cpu" or num_bytes < _MANY_BYTES:
        return torch.zeros(shape, device=device, dtype=dtype)
    return block_of(num_bytes).view(dtype).view(shape)
