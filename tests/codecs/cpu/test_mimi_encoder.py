import pytest
import torch
from transformers import MimiConfig, MimiModel

import solfa
from solfa.codecs.cpu.mimi_encoder import fast_mimi_encoder
from tests.codecs.tiny import make_mimi


def tiny(dtype=torch.float64, **options) -> MimiModel:
    torch.manual_seed(0)
    sizes = {
        "num_filters": 4,
        "hidden_size": 16,
        "codebook_size": 32,
        "upsampling_ratios": [5, 2, 2],
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 32,
        "upsample_groups": 16,
        "sliding_window": 10,
    }
    return MimiModel(MimiConfig(**{**sizes, **options})).eval().to(dtype)


@pytest.mark.parametrize("options", [{}, {"use_conv_shortcut": True, "num_residual_layers": 2}], ids=["mimi", "deep"])
@pytest.mark.parametrize("num_samples", [1, 300, 4000, 4013])
@torch.no_grad()
def test_the_fast_encoder_equals_the_plain_one_in_float64(options, num_samples, tone):
    encoder, audio = tiny(**options).encoder, tone(2, num_samples, dtype=torch.float64)
    fast = fast_mimi_encoder(encoder)(audio)
    torch.testing.assert_close(fast, encoder(audio, use_streaming=False).latents, rtol=1e-10, atol=1e-12)
    assert not fast.requires_grad


@torch.no_grad()
def test_its_convolutions_run_in_pieces(tone, monkeypatch):
    encoder, audio = tiny().encoder, tone(1, 4000, dtype=torch.float64)
    fast = fast_mimi_encoder(encoder)
    monkeypatch.setattr(encoder.encoder_seanet, "forward", None)  # the library's own cannot be what computes
    assert fast(audio).isfinite().all()


@torch.no_grad()
def test_fp16_keeps_the_plain_encoder(tone):
    encoder, audio = tiny(torch.float16).encoder, tone(2, 1000, dtype=torch.float16)
    alone = torch.cat([encoder(clip[None], use_streaming=False).latents for clip in audio])
    assert torch.equal(fast_mimi_encoder(encoder)(audio), alone)


def test_quantisers_take_the_clips_of_a_batch_one_by_one(tmp_path, tone, monkeypatch):
    codec = solfa.load_codec(make_mimi(tmp_path))
    encode, sizes = codec.model.quantizer.encode, []

    def counted(latents, *options):
        sizes.append(len(latents))
        return encode(latents, *options)

    monkeypatch.setattr(codec.model.quantizer, "encode", counted)
    audio = tone(3, 4000)
    codes = codec.encode(audio).array
    assert sizes == [1, 1, 1] and codes.shape == (3, 100, 4)
    assert torch.equal(codes, torch.cat([codec.encode(clip[None]).array for clip in audio]))
