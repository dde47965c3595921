"""Keys and values of the steps seen so far, for generation.

The caller creates the cache and passes it in; no module owns one, and training does without. (Keys that a module kept
from step to step would tie each backward pass to the graph of the one before.)
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from solfa.environment.memory import expect_memory
from solfa.errors import ConfigError
from solfa.nn.kernels.memory_block import block_of

_MANY_BYTES = 1 << 22


class KeyValueCache:
    """Preallocated keys and values per layer, for at most `max_steps` steps, and those of the cross-attention.

    One forward pass appends in every layer at `position` and then advances once. Prepended conditions count as steps.
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
        shape = (num_layers, batch_size, num_heads, max_steps, head_dim)
        num_bytes = 2 * math.prod(shape) * dtype.itemsize
        if torch.device(device).type == "cpu":
            expect_memory(
                num_bytes, f"keys and values of {max_steps:,} steps", "generate fewer seconds, or fewer clips"
            )
        self.keys, self.values = (_zeros(shape, torch.device(device), dtype) for _ in range(2))
        self.cross: list[tuple[Tensor, Tensor] | None] = [None] * num_layers
        """The cross-attention's keys and values of the condition, written by the first forward pass."""
        self.position = 0

    @property
    def max_steps(self) -> int:
        return self.keys.shape[3]

    def append(
        self, layer: int, keys: Float[Tensor, "B H N E"], values: Float[Tensor, "B H N E"]
    ) -> tuple[Float[Tensor, "B H S E"], Float[Tensor, "B H S E"]]:
        """Append new steps to a layer and return all its steps so far, as views."""
        self.expect_room(keys.shape[2])
        stop = self.position + keys.shape[2]
        self.keys[layer, :, :, self.position : stop] = self.rounded(keys)
        self.values[layer, :, :, self.position : stop] = self.rounded(values)
        return self.keys[layer, :, :, :stop], self.values[layer, :, :, :stop]

    def rounded(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Round to the numbers of the cache; what is too large becomes the largest of them."""
        if x.dtype == self.keys.dtype:
            return x
        largest = torch.finfo(self.keys.dtype).max
        if largest < torch.finfo(x.dtype).max:
            x = x.clamp(-largest, largest)
        return x.to(self.keys.dtype)

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


def _zeros(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Allocate zeros; many of them on a CPU in large pages, from which one core reads twice as fast."""
    num_bytes = math.prod(shape) * dtype.itemsize
    if device.type != "cpu" or num_bytes < _MANY_BYTES:
        return torch.zeros(shape, device=device, dtype=dtype)
    return block_of(num_bytes).view(dtype).view(shape)
