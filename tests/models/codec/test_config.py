"""What follows from a codec's config."""

import pytest

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.codec.bottlenecks import Fsq, Gaussian, Rvq
from solfa.models.codec.config import CodecModelConfig


def test_rates_follow_from_strides_and_codebooks() -> None:
    config = CodecModelConfig(sample_rate=24000, bottleneck=Rvq(num_codebooks=8, codebook_size=1024))
    assert (config.hop_length, config.frame_rate, config.bits_per_second) == (320, 75.0, 6000.0)
    assert (config.kind, config.num_codebooks, config.codebook_size, config.latent_channels) == ("codes", 8, 1024, None)


def test_codes_of_finite_scalars_are_products_of_levels() -> None:
    config = CodecModelConfig(sample_rate=24000, bottleneck=Fsq(levels=(8, 8, 8), num_codebooks=2))
    assert (config.kind, config.num_codebooks, config.codebook_size) == ("codes", 2, 512)
    assert config.bits_per_second == pytest.approx(2 * 9 * 75)


def test_continuous_latents_have_channels_and_no_bits() -> None:
    config = CodecModelConfig(sample_rate=24000, bottleneck=Gaussian(latent_channels=32))
    assert (config.kind, config.latent_channels) == ("latents", 32)
    assert (config.num_codebooks, config.codebook_size, config.bits_per_second) == (None, None, None)


def test_plain_values_choose_types_by_kind_and_survive_json() -> None:
    values = {
        "sample_rate": 16000,
        "network": {"kind": "seanet", "strides": [4, 2], "activation": {"kind": "snake"}},
        "bottleneck": {"kind": "rvq", "num_codebooks": 2, "dropout": True},
    }
    config = parse_config(CodecModelConfig, values, "codec")
    assert isinstance(config.bottleneck, Rvq) and config.bottleneck.dropout == 1.0
    assert parse_config(CodecModelConfig, config.model_dump(mode="json"), "codec") == config


def test_a_misspelt_field_of_a_bottleneck_is_named() -> None:
    values = {"sample_rate": 16000, "bottleneck": {"kind": "rvq", "num_codeboks": 2}}
    with pytest.raises(ConfigError, match=r"num_codeboks: .*did you mean 'num_codebooks'"):
        parse_config(CodecModelConfig, values, "codec")
