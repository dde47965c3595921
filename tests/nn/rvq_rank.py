"""One of two processes that train codebooks together: argv is the rank, the file they meet at, and where to save."""

import sys

import torch
import torch.distributed as dist

from solfa.nn.rvq import ResidualVectorQuantizer


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


if __name__ == "__main__":
    rank, meeting, saved = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    states = {}
    for name, expiring in (("plain", False), ("expiring", True)):
        quantizer = build(expiring=expiring)
        torch.manual_seed(100 + rank)
        states[name] = train(quantizer, slice(rank, rank + 1))
    torch.save(states, saved)
    dist.destroy_process_group()
