"""What training a flow model costs per frame, in numbers kept and operations, at least.

Counted is what every layer does with every frame. Conditions, memory tokens and what happens once per clip are left
out. Only shapes are read, so a network on the meta device will do.
"""

from collections.abc import Iterator

from torch import Tensor

from solfa.models.flow.config import StableAudio3Config
from solfa.models.flow.network import FlowNetwork

_OF_CONDITIONS = ("cross_attn.to_kv", "attn2.to_k", "attn2.to_v")
"""Layers that see conditions instead of frames."""


def kept_floats(network: FlowNetwork) -> int:
    """Count the numbers that one frame keeps for the backward pass: the wider side of every product, once."""
    return sum(max(weight.shape) for weight in _products(network))


def operations(network: FlowNetwork, num_frames: int) -> float:
    """Count the floating point operations that one row takes forward and backward: 6 per weight, and the attention."""
    config = network.config
    attentions = 2 if isinstance(config, StableAudio3Config) and config.differential else 1
    pairs = 2 * attentions * config.num_layers * config.dim * num_frames
    return 6.0 * num_frames * (sum(weight.numel() for weight in _products(network)) + pairs)


def _products(network: FlowNetwork) -> Iterator[Tensor]:
    for name, weight in network.dit.dit.transformer_blocks.named_parameters():
        if weight.dim() == 2 and not any(part in name for part in _OF_CONDITIONS):
            yield weight
