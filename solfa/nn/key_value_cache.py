"""Keys and values of the steps that were already seen, for generation.

The cache is an object that the caller makes and hands in; no module owns one, and a training forward has none. (Keys
that a module keeps from step to step would tie each backward to the graph of the one before.)
"""

import torch
from jaxtyping import Float
from torch import Tensor

from solfa.errors import ConfigError


class KeyValueCache:
    """Per layer, preallocated keys and values of at most `max_steps` steps, and those of the cross-attention.

    One forward appends in every layer at `position` and then advances once. A prefix of conditions counts as steps.
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
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.cross: list[tuple[Tensor, Tensor] | None] = [None] * num_layers
        """Keys and values of the condition that cross-attention attends, written by the first forward."""
        self.position = 0

    @property
    def max_steps(self) -> int:
        return self.keys.shape[3]

    def append(
        self, layer: int, keys: Float[Tensor, "B H N E"], values: Float[Tensor, "B H N E"]
    ) -> tuple[Float[Tensor, "B H S E"], Float[Tensor, "B H S E"]]:
        """Write the new steps of a layer and give all steps up to and including them, as views."""
        stop = self.position + keys.shape[2]
        if stop > self.max_steps:
            raise ConfigError(
                f"key-value cache: expected at most {self.max_steps} steps, found {stop}; "
                "make it with as many steps as will be generated, those of prepended conditions included"
            )
        self.keys[layer, :, :, self.position : stop] = keys
        self.values[layer, :, :, self.position : stop] = values
        return self.keys[layer, :, :, :stop], self.values[layer, :, :, :stop]

    def advance(self, num_steps: int) -> None:
        """Count the steps that all layers have appended."""
        self.position += num_steps
