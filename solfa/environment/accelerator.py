"""Which device computes: the best one of this machine, or the one that was asked for, if it is here."""

from solfa.errors import ConfigError


def choose_device(device: str) -> str:
    """Take the device that is asked for (`cuda`, `cuda:1`), or for `auto` the best one; refuse one that is not here."""
    import torch  # here, because this package answers commands that need no torch

    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    usable = [name for name, is_here in available.items() if is_here]
    if device == "auto":
        return usable[0]
    if device.partition(":")[0] not in usable:
        raise ConfigError(f"`device={device}`: not usable here, expected one of {', '.join(usable)} or auto")
    return device
