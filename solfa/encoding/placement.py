"""Choose how many encoder processes run on this machine, and on which devices."""

from dataclasses import dataclass

from solfa.environment.accelerator import choose_device
from solfa.environment.ranks import Rank, usable_cores
from solfa.errors import ConfigError


@dataclass(frozen=True)
class Encoders:
    """How many encoder processes run here, on which devices, and with how many decoding processes each."""

    device: str
    count: int
    num_workers: int
    rank: Rank

    @classmethod
    def choose(cls, device: str, count: int | None, num_workers: int | None, rank: Rank) -> "Encoders":
        """Fill in what the user left open: by default one encoder per core or GPU."""
        import torch

        if count is not None and count < 1:
            raise ConfigError(f"`num_encoders`: expected at least 1, found {count}")
        if num_workers is not None and num_workers < 0:
            raise ConfigError(f"`num_workers`: expected 0 or more, found {num_workers}")
        device = choose_device(device)
        cores = max(1, usable_cores() // rank.local_world_size)
        if device.partition(":")[0] == "cpu":
            return cls("cpu", count or cores, 1 if num_workers is None else num_workers, rank)
        gpus = torch.cuda.device_count() if device == "cuda" and rank.world_size == 1 else 1
        return cls(device, count or gpus, min(4, cores) if num_workers is None else num_workers, rank)

    def device_of(self, index: int) -> str:
        """Return the device of one encoder."""
        if self.device != "cuda":
            return self.device
        return f"cuda:{self.rank.local_rank + index}"
