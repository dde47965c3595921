"""Autoencoders of stable-audio-tools (`model_config.json` and a checkpoint), run by diffusers and transformers."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from solfa.codecs.checkpoint import Checkpoint
from solfa.codecs.families.dac import DacArchitecture, DacCodec, DacNetwork, DacOptions
from solfa.codecs.families.encodec import EncodecCodec, EncodecOptions
from solfa.codecs.families.oobleck import OobleckArchitecture, OobleckCodec, OobleckNetwork, OobleckOptions
from solfa.codecs.stable_audio_tools.model_config import (
    SUPPORTED,
    AnyModel,
    DacDecoder,
    DacEncoder,
    DacLatents,
    DacRvq,
    OobleckLatents,
    StableAudioHeader,
    TanhPart,
    VaePart,
    WassersteinPart,
)
from solfa.codecs.stable_audio_tools.oobleck_network import build_autoencoder, build_network, oobleck_misfits
from solfa.codecs.stable_audio_tools.seanet_config import Seanet, SeanetRvq
from solfa.codecs.stable_audio_tools.tensor_names import dac_layout, oobleck_layout, seanet_layout, unwrap
from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.files.json_objects import read_object
from solfa.pretrained.account import load_exactly
from solfa.pretrained.tensors import read_state_dict


def load_stable_audio(
    config_path: Path, checkpoint: Checkpoint, options: Mapping[str, object]
) -> OobleckCodec | DacCodec | EncodecCodec:
    """Build the codec that `config_path` describes and fill it from `checkpoint.location`."""
    where = f"model config {config_path}"
    header = parse_config(StableAudioHeader, read_object(config_path, ConfigError, where), where)
    model = _parse_model(header.model, where)
    state = unwrap(read_state_dict(Path(checkpoint.location)), f"checkpoint {checkpoint.location}")
    if isinstance(model, OobleckLatents):
        return _oobleck_codec(model, header.sample_rate, state, checkpoint, options)
    if isinstance(model, DacLatents):
        return _dac_latents_codec(model, header.sample_rate, state, checkpoint, options)
    if isinstance(model, SeanetRvq):
        return _seanet_codec(model, header.sample_rate, state, checkpoint, options)
    return _dac_codec(model, header.sample_rate, state, checkpoint, options)


def _parse_model(model: Mapping[str, Any], where: str) -> AnyModel:
    parts = [model.get(name) for name in ("encoder", "decoder", "bottleneck")]
    types = tuple(str(part.get("type")) if isinstance(part, dict) else "none" for part in parts)
    for supported, config in SUPPORTED.items():
        if supported == types:
            return parse_config(config, model, f"{where}: model")
    known = ", or ".join(" + ".join(names) for names in SUPPORTED)
    raise ConfigError(
        f"{where}: expected the encoder, decoder and bottleneck types {known}, found {' + '.join(types)}; for other "
        "models, run pre_encode.py of stable-audio-tools, and read what it writes with `solfa import`"
    )


def _oobleck_codec(
    model: OobleckLatents,
    sample_rate: int,
    state: Mapping[str, Tensor],
    checkpoint: Checkpoint,
    options: Mapping[str, object],
) -> OobleckCodec:
    parsed = parse_config(OobleckOptions, options, f"codec {checkpoint.name}")
    misfits = oobleck_misfits(model)
    autoencoder = None if misfits else build_autoencoder(model, sample_rate)
    network = OobleckNetwork(autoencoder.encoder, autoencoder.decoder) if autoencoder else build_network(model)
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
        **_bottleneck(model),
    )
    return OobleckCodec(network, architecture, checkpoint, parsed, autoencoder=autoencoder, misfits=misfits)


def _bottleneck(model: OobleckLatents | DacLatents) -> dict[str, Any]:
    """Say what an architecture has to of a bottleneck that is not variational, and of what comes after the decoder."""
    part, clipped = model.bottleneck, {"soft_clip": model.decoder.soft_clip or None}
    if isinstance(part, VaePart):
        return clipped
    if isinstance(part, TanhPart):
        return {**clipped, "bottleneck": "tanh", "tanh_scale": part.config.scale}
    if isinstance(part, WassersteinPart) and part.config.use_tanh:
        return {**clipped, "bottleneck": "tanh", "tanh_scale": part.config.tanh_scale}
    return {**clipped, "bottleneck": "none" if part is None else part.type}


def _dac_latents_codec(
    model: DacLatents,
    sample_rate: int,
    state: Mapping[str, Tensor],
    checkpoint: Checkpoint,
    options: Mapping[str, object],
) -> OobleckCodec:
    parsed = parse_config(OobleckOptions, options, f"codec {checkpoint.name}")
    encoder, decoder = model.encoder.config, model.decoder.config
    config = _dac_config(encoder, decoder)
    parts = DacNetwork(*_dac_encoder(encoder, config), nn.Identity(), _dac_decoder(decoder, config))
    layout = dac_layout(len(encoder.strides), len(decoder.rates), num_codebooks=0)
    where = f"checkpoint {checkpoint.location}"
    load_exactly(parts, layout.translate(parts.state_dict(), state, where), where)
    network = OobleckNetwork(nn.Sequential(parts.encoder, parts.projection), parts.decoder)
    architecture = OobleckArchitecture(
        sample_rate=sample_rate,
        num_channels=encoder.in_channels,
        latent_channels=decoder.latent_dim,
        encoder_strides=encoder.strides,
        decoder_strides=decoder.rates,
        family="dac_vae",
        **_bottleneck(model),
    )
    misfits = tuple(f'{part}.type "dac" instead of "oobleck"' for part in ("encoder", "decoder"))
    return OobleckCodec(network, architecture, checkpoint, parsed, misfits=misfits)


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
    from transformers.models.dac.modeling_dac import DacResidualVectorQuantizer

    encoder, decoder, quantizer = model.encoder.config, model.decoder.config, model.bottleneck.config
    config = _dac_config(encoder, decoder)
    config.n_codebooks, config.codebook_size = quantizer.n_codebooks, quantizer.codebook_size
    config.codebook_dim = quantizer.codebook_dim
    return DacNetwork(*_dac_encoder(encoder, config), DacResidualVectorQuantizer(config), _dac_decoder(decoder, config))


def _dac_config(encoder: DacEncoder, decoder: DacDecoder) -> Any:
    from transformers import DacConfig

    return DacConfig(
        encoder_hidden_size=encoder.d_model,
        downsampling_ratios=list(encoder.strides),
        decoder_hidden_size=decoder.channels,
    )


def _dac_encoder(encoder: DacEncoder, config: Any) -> tuple[nn.Module, nn.Module]:
    """Build the encoder and the projection after it; `config` then has the width after the projection."""
    from transformers.models.dac.modeling_dac import DacEncoder as Network

    network = Network(config)
    network.conv1 = nn.Conv1d(encoder.in_channels, encoder.d_model, kernel_size=7, padding=3)
    projection = nn.Identity() if encoder.latent_dim is None else nn.Conv1d(encoder.width, encoder.latent_dim, 1)
    config.hidden_size = encoder.output_dim
    return network, projection


def _dac_decoder(decoder: DacDecoder, config: Any) -> nn.Module:
    from transformers.models.dac.modeling_dac import DacDecoder as Network

    # The library derives both from the encoder; here the decoder has its own.
    config.upsampling_ratios, config.hidden_size = list(decoder.rates), decoder.latent_dim
    network: nn.Module = Network(config)
    narrowest = decoder.channels // 2 ** len(decoder.rates)
    network.conv2 = nn.Conv1d(narrowest, decoder.out_channels, kernel_size=7, padding=3)
    return network


def _seanet_codec(
    model: SeanetRvq,
    sample_rate: int,
    state: Mapping[str, Tensor],
    checkpoint: Checkpoint,
    options: Mapping[str, object],
) -> EncodecCodec:
    from transformers import EncodecModel
    from transformers.models.encodec.modeling_encodec import EncodecDecoder

    parsed = parse_config(EncodecOptions, options, f"codec {checkpoint.name}")
    # The library reverses the strides for its encoder.
    network = EncodecModel(_encodec_config(model, model.encoder.config, model.encoder.config.ratios[::-1], sample_rate))
    decoder = model.decoder.config
    network.decoder = EncodecDecoder(_encodec_config(model, decoder, decoder.ratios, sample_rate))
    where = f"checkpoint {checkpoint.location}"
    load_exactly(network, seanet_layout(network).translate(network.state_dict(), state, where), where)
    return EncodecCodec(network, checkpoint, parsed)


def _encodec_config(model: SeanetRvq, part: Seanet, ratios: tuple[int, ...], sample_rate: int) -> Any:
    from transformers import EncodecConfig

    quantizer = model.bottleneck.config
    bits_per_frame = (quantizer.num_quantizers + 0.5) * math.ceil(math.log2(quantizer.codebook_size))
    return EncodecConfig(
        # The library derives the number of codebooks from the bandwidth, rounding down.
        target_bandwidths=[bits_per_frame * math.ceil(sample_rate / math.prod(ratios)) / 1000],
        sampling_rate=sample_rate,
        audio_channels=part.channels,
        num_filters=part.n_filters,
        hidden_size=part.dimension,
        num_residual_layers=part.n_residual_layers,
        upsampling_ratios=list(ratios),
        kernel_size=part.kernel_size,
        last_kernel_size=part.last_kernel_size,
        residual_kernel_size=part.residual_kernel_size,
        dilation_growth_rate=part.dilation_base,
        use_causal_conv=part.causal,
        pad_mode=part.pad_mode,
        compress=part.compress,
        num_lstm_layers=part.lstm,
        trim_right_ratio=model.decoder.config.trim_right_ratio,
        codebook_size=quantizer.codebook_size,
        codebook_dim=quantizer.dim,
        use_conv_shortcut=not part.true_skip,
    )
