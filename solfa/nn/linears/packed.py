"""Linear layers in the layout that oneDNN's own kernels read, for generation on CPUs.

A generation step multiplies every weight by one or two rows, so it takes as long as reading the weights. On some CPUs,
the BLAS behind `F.linear` reads them at half speed as soon as there are two rows (the doubled batch of guidance):
8 GB/s on a Zen 3 core that can read 20; it reads packed weights at 14 to 16. Results differ only by rounding.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from solfa.errors import ConfigError

_ROWS = 16
"""The number of rows to choose the layout for; it is the same for 2 to 64, and the one for 1 is slow with more."""

M = TypeVar("M", bound=nn.Module)


class ForGeneration(nn.Module):
    """A linear layer whose weights are laid out for one kernel: it can be neither trained nor saved."""

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        raise ConfigError(
            f"{prefix}weight: its layout is only for generation and cannot be saved; save the model before packing it"
        )


class PackedLinear(ForGeneration):
    """A linear layer in float32 with packed weights."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = None if linear.bias is None else linear.bias.detach()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), _ROWS)

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
        return product


def pack_linears(module: M) -> M:
    """Replace every float32 linear layer on a CPU in place, if torch has such a kernel.

    >>> import torch
    >>> from solfa.nn import pack_linears
    >>> network, x = torch.nn.Sequential(torch.nn.Linear(64, 64)), torch.ones(1, 64)
    >>> exact = network(x).detach()
    >>> torch.allclose(pack_linears(network)(x), exact, atol=1e-5)
    True
    """
    if not can_pack():
        return module
    return replace_linears(module, lambda linear: PackedLinear(linear) if _fits(linear) else linear)


def can_pack() -> bool:
    """Say whether this build of torch has oneDNN with packed linear layers."""
    operators = torch.ops.mkldnn
    return (
        torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and hasattr(operators, "_reorder_linear_weight")
        and hasattr(operators, "_linear_pointwise")
    )


def replace_linears(module: M, replacement: Callable[[nn.Linear], nn.Module]) -> M:
    """Replace the linear layers inside `module` one by one, so that at most one has its weights in memory twice."""
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                parent.register_module(name, replacement(child))
    return module


def _fits(linear: nn.Linear) -> bool:
    return linear.weight.device.type == "cpu" and linear.weight.dtype == torch.float32
