import pytest
import torch
from torch import nn
from transformers import DacConfig, DacModel

from solfa.codecs.cpu.dac_encoder import fast_dac_encoder


def tiny(dtype=torch.float32, ratios=(2, 4), weight_norm=False) -> DacModel:
    torch.manual_seed(0)
    config = DacConfig(
        encoder_hidden_size=8, decoder_hidden_size=16, downsampling_ratios=list(ratios), n_codebooks=3, codebook_size=64
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
