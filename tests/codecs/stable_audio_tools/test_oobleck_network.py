"""An oobleck of stable-audio-tools as the `AutoencoderOobleck` of diffusers, where that can be it."""

from pathlib import Path
from typing import Any

import diffusers
import pytest
import torch

from solfa.codecs.catalogue import load_codec
from tests.codecs import tiny
from tests.codecs.stable_audio_tools.test_autoencoder import edited, load, noise

FITTING = edited(tiny.OOBLECK_CONFIG, encoder__config__channels=6, decoder__config__final_tanh=False)


def test_what_diffusers_reads_back_equals_the_original_network_and_is_the_same_codec(tmp_path: Path) -> None:
    config = {**FITTING, "sample_rate": 32_000}
    network = tiny.oobleck_network(config).double()
    codec = load(tiny.make_stable_audio_oobleck(tmp_path / "tools", config=config))
    codec.autoencoder.save_pretrained(tmp_path / "vae")
    theirs = diffusers.AutoencoderOobleck.from_pretrained(tmp_path / "vae").double()
    assert (theirs.sampling_rate, theirs.hop_length) == (32_000, 40)
    with torch.no_grad():
        found = theirs.encode(noise(400)).latent_dist
        mean, scale = network.encoder(noise(400)).chunk(2, dim=1)
        # All in float64, with sums in another order.
        torch.testing.assert_close(found.mean, mean, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.scale, scale, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(theirs.decode(mean).sample, network.decoder(mean), rtol=1e-9, atol=1e-9)
    assert load_codec(tmp_path / "vae").fingerprint == codec.fingerprint


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"decoder__config__final_tanh": True}, ["decoder.config.final_tanh"]),
        ({"decoder__soft_clip": True}, ["decoder.soft_clip"]),
        ({"encoder__config__use_snake": False}, ["encoder.config.use_snake"]),
        ({"decoder__config__use_snake": False}, ["decoder.config.use_snake"]),
        ({"encoder__config__channels": 4}, ["encoder.config.latent_dim"]),
        (
            {"decoder__config__strides": [4, 2, 5], "decoder__config__c_mults": [1, 2, 4]},
            ["decoder.config.strides", "decoder.config.c_mults"],
        ),
        (
            {"bottleneck": {"type": "tanh"}, "encoder__config__latent_dim": 3, "encoder__config__channels": 3},
            ["bottleneck.type"],
        ),
        (
            {"bottleneck": None, "encoder__config__latent_dim": 3, "encoder__config__channels": 3},
            ["bottleneck.type"],
        ),
    ],
)
def test_what_diffusers_cannot_be_is_named_and_runs_here(
    changes: dict[str, Any], named: list[str], tmp_path: Path
) -> None:
    codec = load(tiny.make_stable_audio_oobleck(tmp_path, config=edited(FITTING, **changes)))
    assert codec.autoencoder is None
    assert [misfit.split()[0] for misfit in codec.misfits] == named
    assert codec.decode(codec.encode(noise(400).float())).shape == (2, 2, 400)


def test_the_networks_of_dac_are_no_oobleck(tmp_path: Path) -> None:
    codec = load(tiny.make_stable_audio_dac_vae(tmp_path))
    assert codec.autoencoder is None and [misfit.split()[0] for misfit in codec.misfits] == [
        "encoder.type",
        "decoder.type",
    ]
