"""The network of an oobleck, with the layers of diffusers, and as its `AutoencoderOobleck` where that can be it.

`AutoencoderOobleck` has the same strides and multiples in both halves, gives mean and scale in as many channels as its
encoder begins with, uses snakes, and ends without a tanh.
"""

import json
import warnings
from typing import Any

from torch import nn

from solfa.codecs.families.oobleck import OobleckNetwork
from solfa.codecs.stable_audio_tools.model_config import OobleckLatents


def oobleck_misfits(model: OobleckLatents) -> tuple[str, ...]:
    """Name the settings that `AutoencoderOobleck` does not have; there are none if it computes the same."""
    encoder, decoder = model.encoder.config, model.decoder.config
    settings: dict[str, tuple[Any, Any]] = {
        "bottleneck.type": (model.bottleneck.type if model.bottleneck else "none", "vae"),
        "encoder.config.use_snake": (encoder.use_snake, True),
        "decoder.config.use_snake": (decoder.use_snake, True),
        "decoder.config.final_tanh": (decoder.final_tanh, False),
        "decoder.soft_clip": (model.decoder.soft_clip, False),
        "encoder.config.latent_dim": (encoder.latent_dim, encoder.channels),
        "decoder.config.strides": (decoder.strides, encoder.strides),
        "decoder.config.c_mults": (decoder.c_mults, encoder.c_mults),
    }
    return tuple(
        f"{name} {json.dumps(found)} instead of {json.dumps(expected)}"
        for name, (found, expected) in settings.items()
        if found != expected
    )


def build_autoencoder(model: OobleckLatents, sample_rate: int) -> Any:
    """Build the `AutoencoderOobleck` of a model config that has no misfits, without its weights."""
    from diffusers import AutoencoderOobleck

    encoder, decoder = model.encoder.config, model.decoder.config
    build: Any = AutoencoderOobleck
    with warnings.catch_warnings():
        # The checkpoints hold the tensors of the weight norm that torch deprecates.
        warnings.simplefilter("ignore", FutureWarning)
        return build(
            encoder_hidden_size=encoder.channels,
            downsampling_ratios=list(encoder.strides),
            channel_multiples=list(encoder.c_mults),
            decoder_channels=decoder.channels,
            decoder_input_channels=decoder.latent_dim,
            audio_channels=encoder.in_channels,
            sampling_rate=sample_rate,
        )


def build_network(model: OobleckLatents) -> OobleckNetwork:
    """Build the two halves of any model config, without their weights."""
    from diffusers.models.autoencoders.autoencoder_oobleck import OobleckDecoder, OobleckEncoder

    encoder, decoder = model.encoder.config, model.decoder.config
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        encoder_network = OobleckEncoder(
            encoder.channels, encoder.in_channels, list(encoder.strides), list(encoder.c_mults)
        )
        # diffusers knows only encoders whose latent_dim equals their channels.
        encoder_network.conv2 = nn.utils.weight_norm(
            nn.Conv1d(encoder.channels * encoder.c_mults[-1], encoder.latent_dim, kernel_size=3, padding=1)
        )
        decoder_network = OobleckDecoder(
            decoder.channels,
            decoder.latent_dim,
            decoder.out_channels,
            list(decoder.strides[::-1]),
            list(decoder.c_mults),
        )
    for network, use_snake in ((encoder_network, encoder.use_snake), (decoder_network, decoder.use_snake)):
        if not use_snake:
            _use_elu(network)
    return OobleckNetwork(encoder_network, decoder_network)


def _use_elu(network: nn.Module) -> None:
    """Replace the snakes, the only activations that diffusers knows here."""
    for module in list(network.modules()):
        for name in [name for name, _ in module.named_children() if name.startswith("snake")]:
            setattr(module, name, nn.ELU())
