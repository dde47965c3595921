"""Choose how many encoder processes run on this machine, and on which devices."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from solfa.environment.accelerator import choose_device
from solfa.environment.ranks import Rank, Turn, own_cores, read_rank, read_turn
from solfa.errors import ConfigError

GPU_WORKERS = 4
"""Decoding processes that keep up with the encoder of a GPU."""


@dataclass(frozen=True)
class Encoders:
    """How many encoder processes run, on which devices, and with how many decoding processes each."""

    device: str
    count: int
    num_workers: int
    rank: Rank = field(default=Rank())
    turn: Turn = field(default=Turn())
    """Which of all the commands that work on the dataset this is, so that each starts at another shard."""
    num_devices: int = 1
    """Devices that can be seen from here."""

    @classmethod
    def choose(
        cls, device: str, count: int | None, num_workers: int | None, environment: Mapping[str, str]
    ) -> "Encoders":
        """Fill in what the user left open: by default one encoder per core or GPU that is this process's own."""
        expect_counts(count, num_workers)
        device = choose_device(device)
        cores, rank, turn = own_cores(environment), read_rank(environment), read_turn(environment)
        if device.partition(":")[0] == "cpu":
            return cls("cpu", count or cores, 1 if num_workers is None else num_workers, rank, turn)
        import torch  # here, because a machine without GPUs need not wait for it

        seen = torch.cuda.device_count() if device == "cuda" else 1
        gpus = seen if rank.world_size == 1 else 1
        workers = min(GPU_WORKERS, cores) if num_workers is None else num_workers
        return cls(device, count or gpus, workers, rank, turn, seen)

    def device_of(self, index: int) -> str:
        """Return the device of one encoder."""
        if self.device != "cuda":
            return self.device
        return f"cuda:{(self.rank.local_rank * self.count + index) % self.num_devices}"


def expect_counts(count: int | None, num_workers: int | None) -> None:
    """Refuse numbers of processes that cannot be."""
    if count is not None and count < 1:
        raise ConfigError(f"`num_encoders`: expected at least 1, found {count}")
    if num_workers is not None and num_workers < 0:
        raise ConfigError(f"`num_workers`: expected 0 or more, found {num_workers}")


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread, as encoder processes do, so that the result does not depend on who encodes or how many cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
