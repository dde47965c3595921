"""Tiny codec networks, and tiny EnCodec checkpoints as transformers writes them."""

from pathlib import Path
from typing import Any

import torch
from transformers import EncodecConfig, EncodecModel

from solfa.models.codec.bottlenecks import BottleneckConfig, Fsq, Gaussian, Rvq
from solfa.models.codec.config import CodecModelConfig
from solfa.models.codec.network import CodecModel
from solfa.nn.seanet import SeanetConfig

HOP, K, V = 40, 4, 16
RVQ = Rvq(num_codebooks=K, codebook_size=V)
BOTTLENECKS: list[BottleneckConfig] = [
    RVQ,
    Rvq(num_codebooks=K, codebook_size=V, codebook_dim=3, kmeans_init=False),
    Fsq(levels=(5, 4, 3), num_codebooks=2),
    Gaussian(latent_channels=5),
]

_ENCODEC: dict[str, dict[str, Any]] = {
    "24khz": {"sampling_rate": 24000, "use_causal_conv": True, "use_conv_shortcut": True},
    "32khz": {"sampling_rate": 32000, "use_causal_conv": False, "use_conv_shortcut": False},
    "stereo": {"sampling_rate": 32000, "use_causal_conv": False, "use_conv_shortcut": True, "audio_channels": 2},
    "48khz": {
        "sampling_rate": 48000,
        "audio_channels": 2,
        "use_causal_conv": False,
        "normalize": True,
        "norm_type": "time_group_norm",
        "chunk_length_s": 1.0,
        "overlap": 0.01,
    },
}


def tiny_config(bottleneck: BottleneckConfig = RVQ, num_channels: int = 1, **seanet: Any) -> CodecModelConfig:
    sizes = {"num_filters": 4, "dim": 6, "strides": (5, 4, 2), "lstm_layers": 1}
    return CodecModelConfig(
        sample_rate=8000, num_channels=num_channels, network=SeanetConfig(**{**sizes, **seanet}), bottleneck=bottleneck
    )


def tiny_model(bottleneck: BottleneckConfig = RVQ, **changes: Any) -> CodecModel:
    """A model in eval mode whose codebooks have seen data, and with it weights so large that all latents differ."""
    torch.manual_seed(0)
    model = CodecModel(tiny_config(bottleneck, **changes))
    with torch.no_grad():
        model.encoder.layers[-1].conv.parametrizations.weight.original0.mul_(20)
        for _ in range(2):
            model(torch.randn(2, model.config.num_channels, 4000))
    return model.eval()


def write_encodec(directory: Path, variant: str) -> Path:
    """Write an EnCodec with hop 40 and 4 codebooks of 16, filled with latents that are all chosen."""
    torch.manual_seed(0)
    values = _ENCODEC[variant]
    frame_rate = values["sampling_rate"] / HOP
    config = EncodecConfig(
        num_filters=4,
        hidden_size=6,
        upsampling_ratios=[5, 4, 2],
        codebook_size=V,
        target_bandwidths=[K * frame_rate * 4 / 1000],
        **values,
    )
    model = EncodecModel(config).eval()
    with torch.no_grad():
        residual = model.encoder(0.3 * torch.randn(1, config.audio_channels, 8000))[0].T
        for layer in model.quantizer.layers:
            layer.codebook.embed.copy_(residual[torch.randperm(len(residual))[:V]])
            layer.codebook.cluster_size.uniform_(1, 9)
            residual = residual - layer.codebook.decode(layer.codebook.encode(residual))
    model.save_pretrained(directory)
    return directory
