"""Stable-audio-tools models against a restatement of their networks with the same weights."""

import json
import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from solfa.codecs.catalogue import load_codec
from solfa.codecs.stable_audio_tools.tensor_names import fold_weight_norm
from solfa.errors import ConfigError
from tests.codecs import tiny
from tests.codecs.double import in_double


def edited(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Copy a config with changes such as encoder__config__use_snake=False below `model`."""
    config = deepcopy(config)
    for name, value in changes.items():
        *parents, last = name.split("__")
        target = config["model"]
        for parent in parents:
            target = target[parent]
        target[last] = value
    return config


def load(config_path: Path, **options: Any) -> Any:
    return load_codec(config_path, checkpoint=config_path.parent / "model.safetensors", **options)


def without_weight_norm(network: nn.Module) -> nn.Module:
    """Fold the weight norms, and round the weights as those of a codec are."""
    for module in network.modules():
        if hasattr(module, "weight_g"):
            nn.utils.remove_weight_norm(module)
            module.weight.data = module.weight.data.float().double()
    return network


def noise(num_samples: int) -> torch.Tensor:
    return 0.3 * torch.randn(2, 2, num_samples, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


@pytest.mark.parametrize("final_tanh", [True, False])
def test_oobleck_latents_and_audio_equal_the_original_network(final_tanh: bool, tmp_path: Path) -> None:
    config = edited(tiny.OOBLECK_CONFIG, decoder__config__final_tanh=final_tanh)
    network = tiny.oobleck_network(config).double()
    codec = in_double(load(tiny.make_stable_audio_oobleck(tmp_path, config=config)))
    audio = noise(400)
    encoded = codec.encode(audio)
    with torch.no_grad():
        means = network.means(audio)
        decoded = network.decoder(encoded.array.double().transpose(1, 2))
    assert (codec.sample_rate, codec.hop_length, codec.latent_channels) == (44100, 40, 3)
    # Computed in float64, and then rounded to float32.
    torch.testing.assert_close(encoded.array, means.transpose(1, 2).float(), rtol=2**-23, atol=1e-9)
    torch.testing.assert_close(codec.decode(encoded)[..., : decoded.shape[-1]], decoded.float(), rtol=2**-23, atol=1e-9)
    assert (decoded.abs() < 1).all() == final_tanh, "the signal is loud enough to tell the two apart"


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_an_oobleck_without_snakes_uses_elu(part: str, tmp_path: Path) -> None:
    config = edited(tiny.OOBLECK_CONFIG, **{f"{part}__config__use_snake": False})
    network = tiny.oobleck_network(config).double()
    codec = in_double(load(tiny.make_stable_audio_oobleck(tmp_path, config=config)))
    audio = noise(400)
    encoded = codec.encode(audio)
    with torch.no_grad():
        means = network.means(audio).transpose(1, 2)
        decoded = network.decoder(encoded.array.double().transpose(1, 2))
    torch.testing.assert_close(encoded.array, means.float(), rtol=2**-23, atol=1e-9)
    torch.testing.assert_close(codec.decode(encoded)[..., : decoded.shape[-1]], decoded.float(), rtol=2**-23, atol=1e-9)


@pytest.mark.parametrize(
    "bottleneck",
    [
        {"type": "tanh", "config": {"scale": 2.0}},
        {"type": "l2_norm"},
        {"type": "wasserstein"},
        None,
        {"type": "wasserstein", "config": {"bypass_mmd": True, "use_tanh": True, "tanh_scale": 2.0}},
    ],
)
def test_latents_that_are_squashed_or_normalised_equal_their_definition(
    bottleneck: dict[str, Any] | None, tmp_path: Path
) -> None:
    config = edited(tiny.OOBLECK_CONFIG, encoder__config__latent_dim=3, bottleneck=bottleneck)
    network = tiny.oobleck_network(config).double()
    path = tiny.make_stable_audio_oobleck(tmp_path, config=config)
    codec = in_double(load(path))
    audio = noise(400)
    encoded = codec.encode(audio)
    with torch.no_grad():
        latents = network.encoder(audio)
        if bottleneck == {"type": "l2_norm"}:
            latents = latents / latents.pow(2).sum(1, keepdim=True).sqrt()
        elif bottleneck is not None and "config" in bottleneck:
            latents = 2 * torch.tanh(latents / 2)
        decoded = network.decoder(latents)
    torch.testing.assert_close(encoded.array, latents.transpose(1, 2).float(), rtol=2**-22, atol=1e-9)
    torch.testing.assert_close(codec.decode(encoded)[..., : decoded.shape[-1]], decoded.float(), rtol=1e-5, atol=1e-6)
    with pytest.raises(ConfigError, match="with_scale"):
        load(path, with_scale=True)


@pytest.mark.parametrize("final_tanh", [True, False])
def test_soft_clip_is_one_more_tanh(final_tanh: bool, tmp_path: Path) -> None:
    plain = edited(tiny.OOBLECK_CONFIG, decoder__config__final_tanh=final_tanh)
    config = edited(plain, decoder__soft_clip=True)
    network = tiny.oobleck_network(config).double()
    codec = in_double(load(tiny.make_stable_audio_oobleck(tmp_path / "clipped", config=config)))
    encoded = codec.encode(noise(400))
    with torch.no_grad():
        decoded = network.decoder(encoded.array.double().transpose(1, 2)).tanh()
    torch.testing.assert_close(codec.decode(encoded)[..., : decoded.shape[-1]], decoded.float(), rtol=2**-23, atol=1e-9)
    unclipped = load(tiny.make_stable_audio_oobleck(tmp_path / "plain", config=plain))
    assert unclipped.fingerprint != codec.fingerprint and "soft_clip" not in unclipped.description["architecture"]


@pytest.mark.parametrize("projected", [True, False])
def test_dac_latents_and_audio_equal_the_original_network(projected: bool, tmp_path: Path) -> None:
    width = {"latent_dim": 16, "decoder__config__latent_dim": 16, "encoder__config__latent_dim": None}
    config = tiny.DAC_VAE_CONFIG if projected else edited(tiny.DAC_VAE_CONFIG, **width)
    network = without_weight_norm(tiny.dac_network(config).double())
    path = tiny.make_stable_audio_dac(tmp_path, config=config)
    codec = in_double(load(path))
    audio = noise(400)
    encoded = codec.encode(audio)
    with torch.no_grad():
        means = network.latents(audio).chunk(2, dim=1)[0].transpose(1, 2)
        decoded = network.decoder.decoder(encoded.array.double().transpose(1, 2))
    assert (codec.kind, codec.sample_rate, codec.hop_length) == ("latents", 44100, 40)
    assert codec.latent_channels == (3 if projected else 16) and codec.description["family"] == "dac_vae"
    torch.testing.assert_close(encoded.array, means.float(), rtol=2**-23, atol=1e-9)
    torch.testing.assert_close(codec.decode(encoded)[..., : decoded.shape[-1]], decoded.float(), rtol=2**-23, atol=1e-9)


@pytest.mark.parametrize("ratios", [[2, 4, 5], [5, 4, 2]])
def test_seanet_codes_and_audio_equal_the_original_network(ratios: list[int], tmp_path: Path) -> None:
    config = edited(tiny.SEANET_CONFIG, decoder__config__ratios=ratios, decoder__config__n_filters=6)
    network = tiny.seanet_network(config).double()
    path = tiny.make_stable_audio_seanet(tmp_path, config=config)
    codec = in_double(load(path))
    audio = noise(410)[:, :1]
    with torch.no_grad():
        codes = network.codes(audio)
        decoded = network.decode(codes)
    encoded = codec.encode(audio)
    assert (codec.sample_rate, codec.hop_length, codec.num_codebooks, codec.codebook_size) == (32000, 40, 3, 64)
    assert torch.equal(encoded.array, codes) and len(codes.unique()) > 8
    torch.testing.assert_close(codec.decode(encoded), decoded[..., :410].float(), rtol=1e-5, atol=1e-6)
    assert load(path, num_codebooks=2).encode(audio.float()).array.shape[-1] == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder__config__dilation_base": 3}, "dilation_base: expected 2"),
        ({"bottleneck__config__codebook_dim": 4}, "codebook_dim: expected 8"),
        ({"bottleneck__config__use_cosine_sim": True}, "use_cosine_sim"),
        ({"encoder__config__norm": "time_group_norm"}, "norm"),
        ({"encoder__config__ratios": [2, 4, 4]}, "downsampling_ratio: expected 32"),
    ],
)
def test_seanets_that_would_change_the_numbers_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    config = tiny.make_stable_audio_seanet(tmp_path)
    config.write_text(json.dumps(edited(tiny.SEANET_CONFIG, **changes)))
    with pytest.raises(ConfigError, match=message):
        load(config)


@pytest.mark.parametrize("projected", [True, False])
def test_dac_codes_and_audio_equal_the_original_network(projected: bool, tmp_path: Path) -> None:
    config = tiny.DAC_CONFIG
    if not projected:
        width = {"latent_dim": 32, "decoder__config__latent_dim": 32, "bottleneck__config__input_dim": 32}
        config = edited(config, encoder__config__latent_dim=None, **width)
    network = without_weight_norm(tiny.dac_network(config).double())
    codec = in_double(load(tiny.make_stable_audio_dac(tmp_path, config=config)))
    audio = noise(400)
    with torch.no_grad():
        codes = network.codes(audio)
        decoded = network.decode(codes)
    encoded = codec.encode(audio)
    assert (codec.sample_rate, codec.hop_length, codec.num_codebooks, codec.codebook_size) == (32000, 40, 3, 16)
    assert torch.equal(encoded.array, codes.transpose(1, 2))
    assert len(codes.unique()) > 4
    torch.testing.assert_close(codec.decode(encoded)[..., : decoded.shape[-1]], decoded.float(), rtol=2**-23, atol=1e-9)


@pytest.mark.parametrize("shape", [(5, 1, 1), (4, 3, 7), (2, 5_000, 3)])
def test_weight_norm_is_folded_to_the_float32_that_is_nearest(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    # Rows of very different lengths, as some channels of trained networks have.
    direction = (rng.standard_normal(shape) * 10.0 ** rng.uniform(-8, 3, (shape[0], 1, 1))).astype(np.float32)
    magnitude = rng.uniform(0.1, 3, (shape[0], 1, 1)).astype(np.float32)
    found = fold_weight_norm(torch.from_numpy(direction), torch.from_numpy(magnitude))
    for row in range(shape[0]):
        length = math.sqrt(math.fsum(x * x for x in direction[row].ravel().tolist()))
        expected = direction[row].astype(np.float64) * (float(magnitude[row, 0, 0]) / length)
        assert np.array_equal(found[row].numpy(), expected.astype(np.float32))


def test_torch_checkpoints_load_with_and_without_a_state_dict_key(tmp_path: Path) -> None:
    config = tiny.make_stable_audio_oobleck(tmp_path)
    expected = load(config).fingerprint
    state = load_file(tmp_path / "model.safetensors")
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "wrapped.ckpt")
    torch.save(state, tmp_path / "bare.pt")
    for name in ("wrapped.ckpt", "bare.pt"):
        assert load_codec(f"{config}:checkpoint={tmp_path / name}").fingerprint == expected


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path: Path) -> None:
    config = tiny.make_stable_audio_oobleck(tmp_path)
    torch.save({"state_dict": {"x": Path("/")}}, tmp_path / "evil.ckpt")
    with pytest.raises(ConfigError, match=r"evil\.ckpt: expected .*torch"):
        load_codec(config, checkpoint=tmp_path / "evil.ckpt")
    (tmp_path / "torn.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(ConfigError, match=r"torn\.safetensors: .*safetensors file"):
        load_codec(config, checkpoint=tmp_path / "torn.safetensors")


def test_an_unambiguous_prefix_is_stripped_and_a_training_checkpoint_is_named(tmp_path: Path) -> None:
    config = tiny.make_stable_audio_dac(tmp_path)
    expected = load(config).fingerprint
    path = tmp_path / "model.safetensors"
    wrapped = {f"autoencoder.{key}": tensor for key, tensor in load_file(path).items()}
    save_file(wrapped, path)
    assert load(config).fingerprint == expected
    save_file({**wrapped, "discriminator.conv.weight": torch.ones(1), "autoencoder_ema.initted": torch.ones(1)}, path)
    with pytest.raises(ConfigError, match=r"training checkpoint .*autoencoder_ema, discriminator.*unwrap_model"):
        load(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder__config__use_snake": False}, r"unexpected encoder.*alpha"),
        ({"decoder__config__use_nearest_upsample": True}, "use_nearest_upsample"),
        ({"encoder__config__antialias_activation": True}, "antialias_activation"),
        ({"decoder__soft_clip": "a little"}, "soft_clip"),
        ({"bottleneck": {"type": "wasserstein", "config": {"noise_augment_dim": 2}}}, "noise_augment_dim"),
        ({"encoder__config__causal": True}, "causal: unknown field"),
        ({"pretransform": {"type": "pqmf"}}, "pretransform"),
        ({"latent_dim": 5}, "latent_dim: expected 3"),
        ({"downsampling_ratio": 41}, "downsampling_ratio: expected 40"),
        ({"encoder__config__latent_dim": 5}, "latent_dim: expected 6"),
        ({"io_channels": 1}, "in_channels: expected 2"),
        ({"bottleneck__type": "tanh"}, "latent_dim: expected 3"),
        (
            {"bottleneck__type": "fsq"},
            r"oobleck \+ oobleck \+ vae.*dac \+ dac \+ dac_rvq.*found oobleck.*fsq.*solfa import",
        ),
        ({"encoder__type": "taae"}, r"found taae \+ oobleck \+ vae"),
        ({"bottleneck": None}, "latent_dim: expected 3"),
    ],
)
def test_configs_that_would_change_the_numbers_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    config = tiny.make_stable_audio_oobleck(tmp_path)
    config.write_text(json.dumps(edited(tiny.OOBLECK_CONFIG, **changes)))
    with pytest.raises(ConfigError, match=message):
        load(config)


def test_only_autoencoders_are_codecs(tmp_path: Path) -> None:
    config = tiny.make_stable_audio_oobleck(tmp_path)
    config.write_text(json.dumps({**tiny.OOBLECK_CONFIG, "model_type": "diffusion_cond"}))
    with pytest.raises(ConfigError, match=r"model_type: .*autoencoder.*diffusion_cond"):
        load(config)
    config.write_text("{")
    with pytest.raises(ConfigError, match="JSON"):
        load(config)


def test_a_model_config_needs_a_checkpoint(tmp_path: Path) -> None:
    config = tiny.make_stable_audio_oobleck(tmp_path)
    with pytest.raises(ConfigError, match="checkpoint=PATH"):
        load_codec(config)
    with pytest.raises(ConfigError, match=r"gone\.ckpt: no such file"):
        load_codec(config, checkpoint=tmp_path / "gone.ckpt")


def test_missing_tensors_are_named_as_in_the_checkpoint(tmp_path: Path) -> None:
    config = tiny.make_stable_audio_dac(tmp_path)
    path = tmp_path / "model.safetensors"
    state = load_file(path)
    gone = "bottleneck.quantizer.quantizers.1.in_proj.weight_g"
    del state[gone]
    save_file(state, path)
    with pytest.raises(ConfigError, match=f"missing .*{gone}"):
        load(config)
