"""Which device of this machine computes."""

from solfa.errors import ConfigError


def choose_device(device: str) -> str:
    """Take the best device there is, or the one that was asked for, if it is there."""
    import torch

    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name, there in available.items() if there)
    kind = device.partition(":")[0]
    if not available.get(kind, False):
        there = ", ".join(name for name, found in available.items() if found)
        raise ConfigError(f"device: torch finds no {device} on this machine; there is {there}")
    return device
