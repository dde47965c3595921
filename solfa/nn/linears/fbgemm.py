"""FBGEMM through torch: kernels for weights of fewer bits on x86 CPUs, and where they are missing."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from solfa.errors import ConfigError

_ENGINE = "fbgemm"


def has_fbgemm() -> bool:
    """Say whether this torch was built with FBGEMM and runs on a CPU for which it has kernels."""
    return _ENGINE in torch.backends.quantized.supported_engines


def check_fbgemm(module: nn.Module, weights: str, operator: str) -> None:
    """Refuse a module on another device, and a torch without the operator."""
    if not has_fbgemm() or not hasattr(torch.ops.quantized, operator):
        raise ConfigError(
            f"{weights} weights: expected a torch with FBGEMM's {operator} (x86 CPUs), found torch {torch.__version__} "
            f"with {', '.join(torch.backends.quantized.supported_engines)}; generate with float32 weights"
        )
    devices = {parameter.device.type for parameter in module.parameters()}
    if devices - {"cpu"}:
        raise ConfigError(
            f"{weights} weights: expected a model on the cpu, found it on {', '.join(sorted(devices))}; "
            "move it, or keep its weights"
        )


@contextmanager
def packing_with_fbgemm() -> Iterator[None]:
    """Let torch pack weights for FBGEMM; which engine it takes is a setting of the whole process, put back after."""
    chosen = torch.backends.quantized.engine
    torch.backends.quantized.engine = _ENGINE
    try:
        yield
    finally:
        torch.backends.quantized.engine = chosen
