"""Which device of this machine to compute on."""

from solfa.errors import ConfigError


def choose_device(device: str) -> str:
    """Return the best device of this machine, or the requested one if it exists."""
    import torch

    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name, there in available.items() if there)
    kind = device.partition(":")[0]
    if not available.get(kind, False):
        there = ", ".join(name for name, found in available.items() if found)
        raise ConfigError(f"device: torch finds no {device} on this machine; available: {there}")
    return device
