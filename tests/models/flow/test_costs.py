"""What an update of a flow model keeps and computes is what autograd and torch's counter find, or a little less."""

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from solfa.models.flow.costs import kept_floats, operations
from solfa.models.flow.dits import FlowConditions
from tests.models.flow.tiny_flow import KINDS, tiny_network


@pytest.mark.parametrize("kind", KINDS)
def test_costs_of_long_rows_are_lower_bounds_and_close(kind: str) -> None:
    network, num_frames = tiny_network(kind), 256
    weights = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no place is used twice
        return tensor

    points = torch.ones(1, 4, num_frames, dtype=torch.float64)
    context = torch.ones(1, 1, 8, dtype=torch.float64)
    told = FlowConditions(context, torch.ones(1, 1, dtype=torch.bool), context.expand(1, 2, 8), context[:, 0])
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = network.predict(points, points[:, 0, 0], told).sum()
    # The counter does not know the CPU's fused attention.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        network.predict(points, points[:, 0, 0], told).sum().backward()
    assert loss.isfinite()
    found = sum(kept[place].untyped_storage().nbytes() for place in kept if place not in weights)
    assert 0.25 * found <= 8 * num_frames * kept_floats(network) <= found
    assert 0.5 * counter.get_total_flops() <= operations(network, num_frames) <= 1.05 * counter.get_total_flops()
