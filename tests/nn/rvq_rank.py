"""Two processes that train codebooks together: argv is the folder where they meet and save."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from solfa.nn.rvq import ResidualVectorQuantizer
from tests.forked import expect_success, fork_ranks


def batches() -> torch.Tensor:
    """Three global batches of two clips; each process gets one clip of each."""
    return torch.randn(3, 2, 40, 4, generator=torch.Generator().manual_seed(5))


def train(quantizer: ResidualVectorQuantizer, clips: slice) -> dict[str, torch.Tensor]:
    for batch in batches():
        quantizer(batch[clips])
    return quantizer.state_dict()


def build(*, expiring: bool) -> ResidualVectorQuantizer:
    torch.manual_seed(1)
    options = {"expire_below": 0.5} if expiring else {"expire_below": 0.0, "kmeans_iterations": 0}
    return ResidualVectorQuantizer(2, 8, 4, decay=0.9, **options)


def train_together(rank: int, folder: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    states = {}
    for name, expiring in (("plain", False), ("expiring", True)):
        quantizer = build(expiring=expiring)
        torch.manual_seed(100 + rank)
        states[name] = train(quantizer, slice(rank, rank + 1))
    torch.save(states, folder / f"{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    expect_success(fork_ranks(2, lambda rank: train_together(rank, Path(sys.argv[1]))))
