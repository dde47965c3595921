"""Let the processes of a run act alike: what one of them wishes, all of them do at the same step."""

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def agree(fabric: "Fabric", *wishes: int) -> list[int]:
    """Share the maximum of each request among all processes."""
    if fabric.world_size == 1:
        return list(wishes)
    values = torch.tensor(wishes, device=fabric.device)
    torch.distributed.all_reduce(values, torch.distributed.ReduceOp.MAX)
    return [int(value) for value in values.tolist()]
