"""Tiny checkpoints of every codec family, written as their own libraries write them.

Fresh EnCodec and Mimi codebooks are zeros, and every code would be equal: they are filled with encoder outputs.
"""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from tests.codecs import restated

ENCODEC: dict[str, dict[str, Any]] = {
    "24khz": {"sampling_rate": 24_000},
    "32khz": {"sampling_rate": 32_000, "use_causal_conv": False, "use_conv_shortcut": False},
    "48khz": {
        "sampling_rate": 48_000,
        "audio_channels": 2,
        "normalize": True,
        "chunk_length_s": 0.01,
        "overlap": 0.05,
        "norm_type": "time_group_norm",
        "use_causal_conv": False,
    },
}

OOBLECK_CONFIG: dict[str, Any] = {
    "model_type": "autoencoder",
    "sample_size": 65536,
    "sample_rate": 44100,
    "audio_channels": 2,
    "model": {
        "encoder": {
            "type": "oobleck",
            "config": {
                "in_channels": 2,
                "channels": 4,
                "c_mults": [1, 2, 3],
                "strides": [2, 4, 5],
                "latent_dim": 6,
                "use_snake": True,
            },
        },
        "decoder": {
            "type": "oobleck",
            "config": {
                "out_channels": 2,
                "channels": 5,
                "c_mults": [1, 2, 3],
                "strides": [2, 4, 5],
                "latent_dim": 3,
                "use_snake": True,
            },
        },
        "bottleneck": {"type": "vae"},
        "latent_dim": 3,
        "downsampling_ratio": 40,
        "io_channels": 2,
    },
    "training": {"learning_rate": 1e-4},
}

DAC_CONFIG: dict[str, Any] = {
    "model_type": "autoencoder",
    "sample_rate": 32000,
    "audio_channels": 2,
    "model": {
        "encoder": {"type": "dac", "config": {"in_channels": 2, "latent_dim": 12, "d_model": 4, "strides": [2, 4, 5]}},
        "decoder": {
            "type": "dac",
            "config": {"out_channels": 2, "latent_dim": 12, "channels": 32, "rates": [5, 4, 2]},
        },
        "bottleneck": {
            "type": "dac_rvq",
            "config": {
                "input_dim": 12,
                "n_codebooks": 3,
                "codebook_dim": 4,
                "codebook_size": 16,
                "quantizer_dropout": 0.5,
            },
        },
        "latent_dim": 12,
        "downsampling_ratio": 40,
        "io_channels": 2,
    },
}


DAC_VAE_CONFIG: dict[str, Any] = {
    "model_type": "autoencoder",
    "sample_rate": 44100,
    "audio_channels": 2,
    "model": {
        "encoder": {"type": "dac", "config": {"in_channels": 2, "latent_dim": 6, "d_model": 4, "strides": [2, 4, 5]}},
        "decoder": {"type": "dac", "config": {"out_channels": 2, "latent_dim": 3, "channels": 32, "rates": [5, 4, 2]}},
        "bottleneck": {"type": "vae"},
        "latent_dim": 3,
        "downsampling_ratio": 40,
        "io_channels": 2,
    },
}

_SEANET = {"channels": 1, "dimension": 8, "n_filters": 4, "n_residual_layers": 1, "lstm": 2, "norm": "weight_norm"}
SEANET_CONFIG: dict[str, Any] = {
    "model_type": "autoencoder",
    "sample_rate": 32000,
    "audio_channels": 1,
    "model": {
        "encoder": {"type": "seanet", "config": {**_SEANET, "ratios": [2, 4, 5]}},
        "decoder": {"type": "seanet", "config": {**_SEANET, "ratios": [2, 4, 5]}},
        "bottleneck": {"type": "rvq", "config": {"num_quantizers": 3, "codebook_size": 64, "dim": 8, "decay": 0.99}},
        "latent_dim": 8,
        "downsampling_ratio": 40,
        "io_channels": 1,
    },
}


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        torch.manual_seed(seed)
        yield


def scatter(model: nn.Module, gain: float) -> None:
    """Give every tensor values of its own, of a size that keeps signals alive through the layers."""
    names = dict(model.named_parameters())
    for name, tensor in names.items():
        if name.endswith(("weight", "weight_v")) and tensor.ndim > 1:
            tensor.normal_(std=tensor[0].numel() ** -0.5)
        elif name.endswith("weight_g"):
            tensor.uniform_(0.8 * gain, 1.2 * gain)
        elif name.endswith("bias"):
            tensor.normal_(std=0.1)
        elif name.endswith("beta") or name.replace("alpha", "beta") in names.keys() - {name}:
            tensor.normal_(std=0.25)  # logarithms
        elif name.endswith("alpha"):
            tensor.uniform_(0.5, 1.5)


def codewords(residual: Tensor, size: int) -> Tensor:
    rows = residual[torch.randperm(len(residual))[:size]]
    return rows + 0.1 * residual.std() * torch.randn_like(rows)


def make_encodec(path: Path, variant: str = "24khz", seed: int = 0) -> Path:
    """Write an EnCodec with hop 40 and 4 codebooks of 64; `variant` is 24khz, 32khz or 48khz."""
    from transformers import EncodecConfig, EncodecModel

    values = ENCODEC[variant]
    frame_rate = values["sampling_rate"] / 40
    shape = {"num_filters": 4, "hidden_size": 8, "upsampling_ratios": [5, 4, 2], "codebook_size": 64}
    bandwidths = [codebooks * frame_rate * 6 / 1000 for codebooks in (2.0, 4.0)]
    with seeded(seed):
        model = EncodecModel(EncodecConfig(**shape, **values, target_bandwidths=bandwidths)).eval()
        residual = model.encoder(0.3 * torch.randn(1, model.config.audio_channels, 8000))[0].T
        for layer in model.quantizer.layers:
            layer.codebook.embed.copy_(codewords(residual, 64))
            residual = residual - layer.codebook.decode(layer.codebook.encode(residual))
    model.save_pretrained(path)
    return path


def make_musicgen(path: Path, encodec: Path, seed: int = 0) -> Path:
    """Write a whole MusicGen, with a T5, around an EnCodec."""
    from transformers import (
        EncodecModel,
        MusicgenDecoderConfig,
        MusicgenForCausalLM,
        MusicgenForConditionalGeneration,
        T5Config,
        T5EncoderModel,
    )

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 16}
    with seeded(seed):
        model = MusicgenForConditionalGeneration(
            text_encoder=T5EncoderModel(T5Config(vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)),
            audio_encoder=EncodecModel.from_pretrained(encodec),
            decoder=MusicgenForCausalLM(MusicgenDecoderConfig(vocab_size=64, **sizes)),
        )
    model.save_pretrained(path)
    return path


def make_solfa_codec(path: Path, seed: int = 0) -> Path:
    """Write a codec of ours with hop 40 and 4 codebooks of 32, which one batch has filled."""
    from solfa.models.codec.bottlenecks import Rvq
    from solfa.models.codec.codec_files import save_codec_model
    from solfa.models.codec.config import CodecModelConfig
    from solfa.models.codec.network import CodecModel
    from solfa.nn.seanet import SeanetConfig

    with seeded(seed):
        network = SeanetConfig(num_filters=4, dim=8, strides=(5, 4, 2), lstm_layers=1)
        bottleneck = Rvq(num_codebooks=4, codebook_size=32)
        model = CodecModel(CodecModelConfig(sample_rate=8000, network=network, bottleneck=bottleneck))
        model(0.3 * torch.randn(1, 1, 8000))
        save_codec_model(model.eval(), path)
    return path


def make_dac(path: Path, seed: int = 0) -> Path:
    """Write a DAC with hop 40 (an odd stride in it) and 4 codebooks of 32."""
    from transformers import DacConfig, DacModel

    with seeded(seed):
        config = DacConfig(
            encoder_hidden_size=4,
            decoder_hidden_size=32,
            downsampling_ratios=[2, 4, 5],
            n_codebooks=4,
            codebook_size=32,
            codebook_dim=4,
        )
        model = DacModel(config)
        scatter(model, gain=1.0)
    model.save_pretrained(path)
    return path


def make_mimi(path: Path, seed: int = 0) -> Path:
    """Write a Mimi with hop 40, one semantic and 3 acoustic codebooks of 32."""
    from transformers import MimiConfig, MimiModel

    with seeded(seed):
        config = MimiConfig(
            num_filters=4,
            hidden_size=16,
            codebook_size=32,
            codebook_dim=8,
            vector_quantization_hidden_dimension=8,
            upsampling_ratios=[5, 2, 2],
            num_quantizers=4,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            intermediate_size=32,
            upsample_groups=16,
            sliding_window=10,
        )
        model = MimiModel(config).eval()
        latents = model.encoder(0.3 * torch.randn(1, 1, 8000)).latents
        for name in ("semantic", "acoustic"):
            quantizer = getattr(model.quantizer, f"{name}_residual_vector_quantizer")
            residual = quantizer.input_proj(latents)[0].T
            for layer in quantizer.layers:
                layer.codebook.embed_sum.copy_(codewords(residual, 32))
                layer.codebook.cluster_usage.uniform_(0.5, 2.0)
                layer.codebook.embed_sum.mul_(layer.codebook.cluster_usage[:, None])
                residual = residual - layer.codebook.decode(layer.codebook.encode(residual))
    model.save_pretrained(path)
    return path


def make_oobleck(path: Path, seed: int = 0, latent_channels: int = 4) -> Path:
    """Write an Oobleck with hop 40; stereo."""
    from diffusers import AutoencoderOobleck

    with seeded(seed):
        model = AutoencoderOobleck(
            encoder_hidden_size=2 * latent_channels,
            downsampling_ratios=[2, 4, 5],
            channel_multiples=[1, 2, 2],
            decoder_channels=6,
            decoder_input_channels=latent_channels,
            audio_channels=2,
        )
        scatter(model, gain=0.8)
    model.save_pretrained(path)
    return path


def make_same(path: Path, seed: int = 0) -> Path:
    """Write a SAME with hop 40 and 6 latent channels; stereo."""
    from diffusers import AutoencoderSAME

    with seeded(seed):
        model = AutoencoderSAME(
            patch_size=10,
            encoder_channels=4,
            encoder_c_mults=(2,),
            encoder_strides=(4,),
            encoder_transformer_depths=(2,),
            latent_dim=6,
            dim_heads=4,
        )
        scatter(model, gain=0.8)
        model.bottleneck.running_std.fill_(1.7)
    model.save_pretrained(path)
    return path


def make_ace_step(path: Path, seed: int = 0) -> Path:
    """Write an Oobleck as ACE-Step has it, at 48 kHz and with other strides; hop 40."""
    from diffusers import AutoencoderOobleck

    with seeded(seed):
        model = AutoencoderOobleck(
            encoder_hidden_size=8,
            downsampling_ratios=[4, 10],
            channel_multiples=[1, 2],
            decoder_channels=6,
            decoder_input_channels=4,
            audio_channels=2,
            sampling_rate=48_000,
        )
        scatter(model, gain=0.8)
    model.save_pretrained(path)
    return path


def make_stable_audio_oobleck(path: Path, seed: int = 0, config: dict[str, Any] | None = None) -> Path:
    """Write `model_config.json` and `model.safetensors` of an oobleck + vae; return the former."""
    config = config or OOBLECK_CONFIG
    return _write(path, config, oobleck_network(config, seed))


def make_stable_audio_dac(path: Path, seed: int = 0, config: dict[str, Any] | None = None) -> Path:
    """Write `model_config.json` and `model.safetensors` of a dac + dac_rvq; return the former."""
    config = config or DAC_CONFIG
    return _write(path, config, dac_network(config, seed))


def make_stable_audio_dac_vae(path: Path, seed: int = 0) -> Path:
    """Write `model_config.json` and `model.safetensors` of a dac + vae; return the former."""
    return make_stable_audio_dac(path, seed, DAC_VAE_CONFIG)


def oobleck_network(config: dict[str, Any], seed: int = 0) -> restated.OobleckVae:
    model = config["model"]
    with seeded(seed):
        network = restated.OobleckVae(model["encoder"]["config"], model["decoder"]["config"]).eval()
        scatter(network, gain=0.8)
    return network


def dac_network(config: dict[str, Any], seed: int = 0) -> restated.DacRvq:
    model = config["model"]
    with seeded(seed):
        parts = (model[name].get("config") for name in ("encoder", "decoder", "bottleneck"))
        network = restated.DacRvq(*parts).eval()
        scatter(network, gain=1.5)
    return network


def make_stable_audio_seanet(path: Path, seed: int = 0, config: dict[str, Any] | None = None) -> Path:
    """Write `model_config.json` and `model.safetensors` of a seanet + rvq; return the former."""
    config = config or SEANET_CONFIG
    return _write(path, config, seanet_network(config, seed))


def seanet_network(config: dict[str, Any], seed: int = 0) -> restated.SeanetRvq:
    model = config["model"]
    with seeded(seed):
        network = restated.SeanetRvq(*(model[name]["config"] for name in ("encoder", "decoder", "bottleneck"))).eval()
        scatter(network, gain=1.0)
        residual = network.encoder(0.3 * torch.randn(1, 1, 8000))[0].T
        for layer in network.bottleneck.quantizer.layers:
            words = codewords(residual, layer._codebook.embed.shape[1])
            layer._codebook.embed.copy_(words[None])
            residual = residual - words[torch.cdist(residual, words).argmin(-1)]
    return network


def _write(path: Path, config: dict[str, Any], network: nn.Module) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "model_config.json").write_text(json.dumps(config))
    save_file(network.state_dict(), path / "model.safetensors")
    return path / "model_config.json"
