"""What an update keeps is what autograd says it keeps; what it computes grows with the weights."""

import pytest
import torch
from torch import Tensor

from solfa.models.lm.conditions import Conditions
from solfa.models.lm.costs import kept_floats, operations
from solfa.models.lm.network import CodecLM, CodecLMConfig, cross_entropy


def kept_bytes(model: CodecLM, conditions: Conditions, rows: int, num_frames: int) -> int:
    """Add up the storages that autograd keeps for the backward pass."""
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor  # held, so that no place is used twice
        return tensor

    codes = torch.zeros(rows, model.num_codebooks, model.layout(num_frames).shape[1], dtype=torch.int64)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = cross_entropy(model(codes, conditions), codes, torch.ones_like(codes, dtype=torch.bool)).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    return sum(kept[place].untyped_storage().nbytes() for place in kept if place not in weights)


@pytest.mark.parametrize("crosses", [False, True])
def test_what_is_kept_for_the_backward_pass_is_predicted(crosses: bool) -> None:
    config = CodecLMConfig(
        num_codebooks=4, codebook_size=64, dim=64, num_layers=3, num_heads=2, ffn_dim=160, cross_attention=crosses
    )
    model, rows, num_frames = CodecLM(config), 4, 61
    cross = torch.zeros(rows, 2, 64) if crosses else None
    mask = torch.ones(rows, 2, dtype=torch.bool) if crosses else None
    found = kept_bytes(model, Conditions(cross=cross, cross_mask=mask), rows, num_frames)
    predicted = 4 * rows * 64 * kept_floats(config)
    assert predicted <= found * 1.02  # "at least"; what grows with neither width nor codes is left out
    assert predicted >= found * 0.85


def test_operations_are_six_per_weight_and_step() -> None:
    config = CodecLMConfig(num_codebooks=2, codebook_size=8, dim=16, num_layers=2, num_heads=2, ffn_dim=32)
    model = CodecLM(config)
    products = sum(weight.numel() for name, weight in model.named_parameters() if weight.dim() == 2)
    embeddings = sum(part.weight.numel() for part in model.modules() if isinstance(part, torch.nn.Embedding))
    attention = 6 * 2 * 16  # grows with the length of a row
    assert operations(config, 1) == 6 * (products - embeddings) + attention
