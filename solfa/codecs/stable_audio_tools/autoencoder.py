"""Autoencoders of stable-audio-tools (`model_config.json` and a checkpoint), run by diffusers and transformers."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from solfa.codecs.checkpoint import Checkpoint
from solfa.codecs.families.dac import DacArchitecture, DacCodec, DacNetwork, DacOptions
from solfa.codecs.families.oobleck import OobleckArchitecture, OobleckCodec, OobleckNetwork, OobleckOptions
from solfa.codecs.stable_audio_tools.model_config import SUPPORTED, DacRvq, OobleckVae, StableAudioHeader
from solfa.codecs.stable_audio_tools.tensor_names import dac_layout, oobleck_layout, unwrap
from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.files.json_objects import read_object
from solfa.pretrained.account import load_exactly
from solfa.pretrained.tensors import read_state_dict


def load_stable_audio(
    config_path: Path, checkpoint: Checkpoint, options: Mapping[str, object]
) -> OobleckCodec | DacCodec:
    """Build the codec that `config_path` describes and fill it from `checkpoint.location`."""
    where = f"model config {config_path}"
    header = parse_config(StableAudioHeader, read_object(config_path, ConfigError, where), where)
    model = _parse_model(header.model, where)
    state = unwrap(read_state_dict(Path(checkpoint.location)), f"checkpoint {checkpoint.location}")
    if isinstance(model, OobleckVae):
        return _oobleck_codec(model, header.sample_rate, state, checkpoint, options)
    return _dac_codec(model, header.sample_rate, state, checkpoint, options)


def _parse_model(model: Mapping[str, Any], where: str) -> OobleckVae | DacRvq:
    parts = [model.get(name) for name in ("encoder", "decoder", "bottleneck")]
    types = tuple(str(part.get("type")) if isinstance(part, dict) else "none" for part in parts)
    for supported, config in SUPPORTED.items():
        if supported == types:
            return parse_config(config, model, f"{where}: model")
    known = ", or ".join(" + ".join(names) for names in SUPPORTED)
    raise ConfigError(f"{where}: expected the encoder, decoder and bottleneck types {known}, found {' + '.join(types)}")


def _oobleck_codec(
    model: OobleckVae,
    sample_rate: int,
    state: Mapping[str, Tensor],
    checkpoint: Checkpoint,
    options: Mapping[str, object],
) -> OobleckCodec:
    parsed = parse_config(OobleckOptions, options, f"codec {checkpoint.name}")
    network = _oobleck_network(model)
    encoder, decoder = model.encoder.config, model.decoder.config
    layout = oobleck_layout(len(encoder.strides), len(decoder.strides))
    where = f"checkpoint {checkpoint.location}"
    load_exactly(network, layout.translate(network.state_dict(), state, where), where)
    architecture = OobleckArchitecture(
        sample_rate=sample_rate,
        num_channels=encoder.in_channels,
        latent_channels=decoder.latent_dim,
        encoder_strides=encoder.strides,
        decoder_strides=decoder.strides[::-1],
        final_tanh=decoder.final_tanh,
    )
    return OobleckCodec(network, architecture, checkpoint, parsed)


def _oobleck_network(model: OobleckVae) -> OobleckNetwork:
    from diffusers.models.autoencoders.autoencoder_oobleck import OobleckDecoder, OobleckEncoder

    encoder, decoder = model.encoder.config, model.decoder.config
    with warnings.catch_warnings():
        # The checkpoints hold the tensors of the weight norm that torch deprecates.
        warnings.simplefilter("ignore", FutureWarning)
        encoder_network = OobleckEncoder(  # type: ignore[no-untyped-call]
            encoder.channels, encoder.in_channels, list(encoder.strides), list(encoder.c_mults)
        )
        # diffusers knows only encoders whose latent_dim equals their channels.
        encoder_network.conv2 = nn.utils.weight_norm(
            nn.Conv1d(encoder.channels * encoder.c_mults[-1], encoder.latent_dim, kernel_size=3, padding=1)
        )
        decoder_network = OobleckDecoder(  # type: ignore[no-untyped-call]
            decoder.channels,
            decoder.latent_dim,
            decoder.out_channels,
            list(decoder.strides[::-1]),
            list(decoder.c_mults),
        )
    return OobleckNetwork(encoder_network, decoder_network)


def _dac_codec(
    model: DacRvq, sample_rate: int, state: Mapping[str, Tensor], checkpoint: Checkpoint, options: Mapping[str, object]
) -> DacCodec:
    parsed = parse_config(DacOptions, options, f"codec {checkpoint.name}")
    network = _dac_network(model)
    encoder, decoder, quantizer = model.encoder.config, model.decoder.config, model.bottleneck.config
    layout = dac_layout(len(encoder.strides), len(decoder.rates), quantizer.n_codebooks)
    where = f"checkpoint {checkpoint.location}"
    load_exactly(network, layout.translate(network.state_dict(), state, where), where)
    architecture = DacArchitecture(
        sample_rate=sample_rate,
        num_channels=encoder.in_channels,
        codebook_size=quantizer.codebook_size,
        encoder_strides=encoder.strides,
        decoder_strides=decoder.rates,
    )
    return DacCodec(network, architecture, checkpoint, parsed)


def _dac_network(model: DacRvq) -> DacNetwork:
    from transformers import DacConfig
    from transformers.models.dac.modeling_dac import DacDecoder, DacEncoder, DacResidualVectorQuantizer

    encoder, decoder, quantizer = model.encoder.config, model.decoder.config, model.bottleneck.config
    config = DacConfig(
        encoder_hidden_size=encoder.d_model,
        downsampling_ratios=list(encoder.strides),
        decoder_hidden_size=decoder.channels,
        n_codebooks=quantizer.n_codebooks,
        codebook_size=quantizer.codebook_size,
        codebook_dim=quantizer.codebook_dim,
    )
    encoder_network = DacEncoder(config)
    encoder_network.conv1 = nn.Conv1d(encoder.in_channels, encoder.d_model, kernel_size=7, padding=3)
    projection = nn.Identity() if encoder.latent_dim is None else nn.Conv1d(encoder.width, encoder.latent_dim, 1)
    # The library derives both from the encoder; here the decoder has its own, and the projection changes the width.
    config.upsampling_ratios, config.hidden_size = list(decoder.rates), decoder.latent_dim
    decoder_network = DacDecoder(config)
    decoder_network.conv2 = nn.Conv1d(
        decoder.channels // 2 ** len(decoder.rates), decoder.out_channels, kernel_size=7, padding=3
    )
    return DacNetwork(encoder_network, projection, DacResidualVectorQuantizer(config), decoder_network)
