"""Which device computes, and how: the best of this machine, or what was asked for, if it is here."""

import os
import sys
from contextlib import suppress

from solfa.environment.bf16 import WORTH_IT, measure_bf16
from solfa.errors import ConfigError

_GPU_FILES = ("nvidia", "nvhost", "nvmap", "nvgpu", "dxg", "kfd")
"""How the names of device files begin: NVIDIA's driver, its boards without cards, Windows' for Linux, and AMD's."""


def choose_device(device: str) -> str:
    """Take the device that is asked for (`cuda`, `cuda:1`), or for `auto` the best one; refuse one that is not here."""
    if device == "cpu" or (device == "auto" and "torch" not in sys.modules and has_no_gpu()):
        return "cpu"
    import torch  # here, because this package answers commands that need no torch

    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    usable = [name for name, is_here in available.items() if is_here]
    if device == "auto":
        return usable[0]
    if device.partition(":")[0] not in usable:
        raise ConfigError(f"`device={device}`: not usable here, expected one of {', '.join(usable)} or auto")
    return device


def has_no_gpu() -> bool:
    """Say whether this is a Linux machine without the device files that drivers of GPUs make; torch would find none."""
    if sys.platform == "linux":
        with suppress(OSError):
            return not any(name.startswith(_GPU_FILES) for name in os.listdir("/dev"))  # noqa: PTH208 - only names
    return False


def gains_by_bf16(device: str) -> bool:
    """Say whether training on a device, which `choose_device` chose, is faster under bf16 autocast; CPUs are tried."""
    import torch

    if device.startswith("cuda"):
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device == "cpu" and measure_bf16() >= WORTH_IT
