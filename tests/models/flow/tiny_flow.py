"""A flow network small enough for tests, with weights that say something."""

import torch

from solfa.models.conditioners.set import ConditionsConfig
from solfa.models.flow.config import FlowModelConfig, StableAudio3Config, StableAudioOpenConfig
from solfa.models.flow.network import FlowNetwork, build_flow

KINDS = ("stable_audio_3", "stable_audio_open")


def tiny_config(kind: str = "stable_audio_3", **changes: object) -> FlowModelConfig:
    if kind == "stable_audio_open":
        # Its rotary embedding is at least 32 wide, half of a head.
        own = {"dim": 128, "num_heads": 2, "num_kv_heads": 1}
        return StableAudioOpenConfig(kind=kind, num_layers=2, cond_dim=8, max_seconds=30, **{**own, **changes})
    own = {"dim": 16, "num_heads": 2, "num_memory_tokens": 2}
    return StableAudio3Config(kind="stable_audio_3", num_layers=2, cond_dim=8, max_seconds=30, **{**own, **changes})


def tiny_network(kind: str = "stable_audio_3", num_channels: int = 4, **changes: object) -> FlowNetwork:
    """Build a network in float64 whose weights are all drawn: some start at zero and would hide what they multiply."""
    conditions = ConditionsConfig.model_validate(
        {
            "conditioners": {
                "text": {"kind": "words", "num_rows": 32, "width": 4},
                "bpm": {"kind": "number", "source": "bpm", "min": 0, "max": 200},
            }
        }
    )
    network = build_flow(tiny_config(kind, **changes), conditions, num_channels).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3)
    return network
