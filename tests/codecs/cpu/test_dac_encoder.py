import warnings

import pytest
import torch
from diffusers.models.autoencoders.autoencoder_oobleck import OobleckEncoder
from torch import nn
from transformers import DacConfig, DacModel

from solfa.codecs.cpu.dac_encoder import fast_dac_encoder, fast_vae_encoder, read_stages


def tiny(dtype=torch.float32, ratios=(2, 4), weight_norm=False, width=8) -> DacModel:
    torch.manual_seed(0)
    config = DacConfig(
        encoder_hidden_size=width,
        decoder_hidden_size=16,
        downsampling_ratios=list(ratios),
        n_codebooks=3,
        codebook_size=64,
    )
    model = DacModel(config).eval()
    for module in model.modules():
        if isinstance(module, nn.Conv1d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="linear")
            nn.init.normal_(module.bias, std=0.1)
    for name, parameter in model.named_parameters():
        if name.endswith("alpha"):
            nn.init.uniform_(parameter, 0.3, 1.5)
    if weight_norm:
        model.apply_weight_norm()
    return model.to(dtype)


@pytest.mark.parametrize("ratios", [(2, 4), (3, 5), (8,)])
@pytest.mark.parametrize("num_samples", [30, 2048, 2049, 4111])
@torch.no_grad()
def test_the_fast_encoder_equals_the_plain_one_in_float64(ratios, num_samples, tone):
    model = tiny(torch.float64, ratios)
    audio = tone(2, num_samples, dtype=torch.float64)
    torch.testing.assert_close(fast_dac_encoder(model.encoder)(audio), model.encoder(audio), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("num_clips", [1, 3])
@torch.no_grad()
def test_the_fast_encoder_gives_the_same_codes(num_clips, tone):
    # In float64 no two codes are tied by rounding, so equal mathematics means equal codes on every CPU.
    model = tiny(torch.float64)
    audio = tone(num_clips, 4096 + 8, dtype=torch.float64)
    codes = model.quantizer(model.encoder(audio))[1]
    assert len(codes.unique()) > 20
    assert torch.equal(model.quantizer(fast_dac_encoder(model.encoder)(audio))[1], codes)


@torch.no_grad()
def test_the_fast_encoder_differs_by_rounding_only_in_float32(tone):
    model, audio = tiny(), tone(3, 4096 + 8)
    plain = torch.cat([model.encoder(clip[None]) for clip in audio])
    torch.testing.assert_close(fast_dac_encoder(model.encoder)(audio), plain, rtol=1e-3, atol=1e-4 * plain.std().item())


@torch.no_grad()
def test_compiled_stages_have_the_bits_of_the_plain_encoder(tone):
    model, audio = tiny(width=32), tone(2, 21003)
    plain = torch.cat([model.encoder(clip[None]) for clip in audio])
    fast = fast_dac_encoder(model.encoder)(audio)
    torch.testing.assert_close(fast, plain, rtol=1e-3, atol=1e-4 * plain.std().item())
    if any(conv.compiled is None for stage in read_stages(model.encoder) for conv in stage.convolutions):
        pytest.skip("there is no C compiler, or PyTorch adds up in another order on this processor")
    assert torch.equal(fast, plain)


@torch.no_grad()
def test_weight_norm_is_folded_in(tone):
    model = tiny(torch.float64, weight_norm=True)
    with torch.no_grad():
        for name, parameter in model.encoder.named_parameters():
            if name.endswith("original0"):
                parameter.mul_(1.5)
    audio = tone(1, 3000, dtype=torch.float64)
    torch.testing.assert_close(fast_dac_encoder(model.encoder)(audio), model.encoder(audio), rtol=1e-10, atol=1e-11)


@torch.no_grad()
def test_a_clip_does_not_depend_on_the_others_of_its_batch(tone):
    fast, audio = fast_dac_encoder(tiny().encoder), tone(3, 3000)
    assert torch.equal(fast(audio), torch.cat([fast(clip[None]) for clip in audio]))


@torch.no_grad()
def test_the_shortest_clips_are_encoded_as_the_plain_module_does(tone):
    model = tiny(torch.float64)
    for num_samples in (8, 9, 15, 16, 17):
        audio = tone(1, num_samples, dtype=torch.float64)
        torch.testing.assert_close(fast_dac_encoder(model.encoder)(audio), model.encoder(audio), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("convert", [{"dtype": torch.bfloat16}, {"device": "meta"}])
def test_other_dtypes_and_devices_keep_the_plain_encoder(convert):
    model = tiny().to(**convert)
    assert fast_dac_encoder(model.encoder) is model.encoder


def test_no_graph_is_kept(tone):
    assert not fast_dac_encoder(tiny().encoder)(tone(1, 2000)).requires_grad


def oobleck(dtype=torch.float64, elu=False) -> nn.Module:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # its weight norm, which changes `weight` only when it is called
        encoder = OobleckEncoder(8, 2, [2, 5], [1, 2]).eval()
    for name, parameter in encoder.named_parameters():
        if name.endswith(("alpha", "beta")):
            nn.init.normal_(parameter, std=0.3)
        elif name.endswith("weight_g"):
            nn.init.uniform_(parameter, 0.5, 1.5)
    for module in list(encoder.modules()) if elu else ():
        for name in [name for name, _ in module.named_children() if name.startswith("snake")]:
            setattr(module, name, nn.ELU())
    return encoder.requires_grad_(False).to(dtype)


@pytest.mark.parametrize("elu", [False, True], ids=["snake", "elu"])
@pytest.mark.parametrize("num_samples", [10, 2000, 2990])
@torch.no_grad()
def test_oobleck_has_the_fast_encoder_too(elu, num_samples, tone):
    encoder, audio = oobleck(elu=elu), tone(2, num_samples, 2, torch.float64)
    fast = fast_vae_encoder(encoder)(audio)  # before the plain one, whose call would compute the weights
    torch.testing.assert_close(fast, encoder(audio), rtol=1e-10, atol=1e-11)


@torch.no_grad()
def test_a_projection_follows_the_fast_encoder(tone):
    encoder = nn.Sequential(tiny(torch.float64).encoder, nn.Conv1d(32, 5, 1).double())
    audio = tone(2, 2000, dtype=torch.float64)
    torch.testing.assert_close(fast_vae_encoder(encoder)(audio), encoder(audio), rtol=1e-10, atol=1e-11)


@torch.no_grad()
def test_an_oobleck_in_bf16_is_run_clip_by_clip(tone):
    encoder, audio = oobleck(torch.bfloat16), tone(2, 200, 2, torch.bfloat16)
    assert torch.equal(fast_vae_encoder(encoder)(audio), torch.cat([encoder(clip[None]) for clip in audio]))
