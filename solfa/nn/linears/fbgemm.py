"""FBGEMM through torch: kernels for low-bit weights on x86 CPUs, and checks for when they are missing."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from solfa.errors import ConfigError

_ENGINE = "fbgemm"


def has_fbgemm() -> bool:
    """Say whether this torch has FBGEMM with kernels for this CPU."""
    return _ENGINE in torch.backends.quantized.supported_engines


def check_fbgemm(module: nn.Module, weights: str, operator: str) -> None:
    """Refuse a module on another device, and a torch without the operator."""
    if not has_fbgemm() or not hasattr(torch.ops.quantized, operator):
        raise ConfigError(
            f"{weights} weights: expected a torch with FBGEMM's {operator} (x86 CPUs only), found torch "
            f"{torch.__version__} with {', '.join(torch.backends.quantized.supported_engines)}; use float32 weights"
        )
    devices = {parameter.device.type for parameter in module.parameters()}
    if devices - {"cpu"}:
        raise ConfigError(
            f"{weights} weights: expected a model on the cpu, found it on {', '.join(sorted(devices))}; "
            "move it there, or leave its weights as they are"
        )


@contextmanager
def packing_with_fbgemm() -> Iterator[None]:
    """Let torch pack weights for FBGEMM; the engine is a process-wide setting, which is restored afterwards."""
    chosen = torch.backends.quantized.engine
    torch.backends.quantized.engine = _ENGINE
    try:
        yield
    finally:
        torch.backends.quantized.engine = chosen
