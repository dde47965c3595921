"""The transformer against its formula written out, and dropout."""

import torch
import torch.nn.functional as F

from solfa.nn.transformer import Transformer, TransformerLayer


def randomised(module: torch.nn.Module) -> torch.nn.Module:
    """Draw all parameters, also the norms', so that none can be left out unseen."""
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module


def test_a_layer_is_three_pre_norm_residual_blocks() -> None:
    layer = TransformerLayer(8, 2, 16, dropout=0.0, cross_attention=True)
    randomised(layer)
    x, condition = torch.randn(2, 4, 8), torch.randn(2, 3, 8)
    assert layer.cross_norm is not None and layer.cross_attention is not None
    y = x + layer.self_attention(layer.self_norm(x))
    y = y + layer.cross_attention(layer.cross_norm(y), condition)
    z = F.layer_norm(y, (8,), layer.ffn_norm.weight, layer.ffn_norm.bias) @ layer.fc1.weight.T
    y = y + (z * 0.5 * (1 + torch.erf(z / 2**0.5))) @ layer.fc2.weight.T
    assert torch.allclose(layer(x, None, condition), y, atol=1e-4)


def test_the_stack_applies_its_layers_in_order_and_then_the_norm() -> None:
    stack = Transformer(3, 8, 2, 16)
    randomised(stack)
    x = torch.randn(2, 4, 8)
    y = x
    for layer in stack.layers:
        y = layer(y)
    assert torch.equal(stack(x), stack.norm(y))


def test_without_a_condition_the_cross_attention_adds_what_zeros_would() -> None:
    stack = Transformer(2, 8, 2, 16, cross_attention=True)
    randomised(stack)
    x = torch.randn(2, 4, 8)
    assert torch.equal(stack(x), stack(x, None, torch.zeros(2, 3, 8)))


def test_dropout_acts_in_training_only() -> None:
    stack = Transformer(2, 8, 2, 16, dropout=0.5)
    x = torch.randn(2, 4, 8)
    assert not torch.equal(stack(x), stack(x))
    stack.eval()
    assert torch.equal(stack(x), stack(x))


def test_projections_have_no_biases_and_norms_have() -> None:
    biases = {name for name, _ in Transformer(1, 8, 2, 16, cross_attention=True).named_parameters() if "bias" in name}
    layer = "layers.0"
    assert biases == {"norm.bias", f"{layer}.self_norm.bias", f"{layer}.cross_norm.bias", f"{layer}.ffn_norm.bias"}
