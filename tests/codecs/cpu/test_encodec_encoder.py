import pytest
import torch
from torch import nn
from transformers import EncodecConfig, EncodecModel

from solfa.codecs.checkpoint import Checkpoint
from solfa.codecs.cpu import convolution, encodec_encoder
from solfa.codecs.cpu.encodec_encoder import fast_encodec_encoder
from solfa.codecs.cpu.frame_kernel import FrameConvolution
from solfa.codecs.cpu.lstm import MIN_CLIPS
from solfa.codecs.families.trained import OwnCodec, OwnOptions
from solfa.models.codec.bottlenecks import Rvq
from solfa.models.codec.config import CodecModelConfig
from solfa.models.codec.network import CodecModel
from solfa.nn.activations import Elu, Snake
from solfa.nn.seanet import SeanetConfig
from solfa.nn.spectral_net import SpectralConfig

CENTRED = {"use_causal_conv": False, "use_conv_shortcut": False}
CAUSAL = {"use_causal_conv": True, "use_conv_shortcut": True}
DEEP = {**CENTRED, "num_residual_layers": 3, "pad_mode": "constant"}
STEREO = {**CAUSAL, "audio_channels": 2, "pad_mode": "replicate", "upsampling_ratios": [3, 5]}


def tiny(dtype=torch.float32, **options) -> EncodecModel:
    torch.manual_seed(0)
    sizes = {"num_filters": 8, "hidden_size": 16, "codebook_size": 64, "upsampling_ratios": [4, 2, 2]}
    model = EncodecModel(EncodecConfig(**{**sizes, **options})).eval().to(dtype)
    for name, parameter in model.encoder.named_parameters():
        if name.endswith("original0"):  # The length of a weight-normed kernel: left at one would hide a lost norm.
            nn.init.uniform_(parameter, 0.5, 2.0)
    return model


def ours(network: SeanetConfig | SpectralConfig, dtype=torch.float64) -> CodecModel:
    torch.manual_seed(0)
    config = CodecModelConfig(sample_rate=8000, network=network, bottleneck=Rvq(num_codebooks=4, codebook_size=32))
    model = CodecModel(config)
    with torch.no_grad():
        model(torch.randn(1, 1, 8000))  # fills the codebooks
    for name, parameter in model.encoder.named_parameters():
        if name.endswith("original0"):
            nn.init.uniform_(parameter, 0.5, 2.0)
    return model.eval().to(dtype)


def our_seanet(**options) -> SeanetConfig:
    return SeanetConfig(**{"num_filters": 8, "dim": 16, "strides": (4, 2, 2), "lstm_layers": 0, **options})


def fill_codebooks(model: EncodecModel, audio: torch.Tensor) -> None:
    residual = model.encoder(audio).mT.flatten(0, 1)
    for layer in model.quantizer.layers:
        layer.codebook.embed.copy_(residual[torch.randperm(len(residual))[: len(layer.codebook.embed)]])
        residual = residual - layer.codebook.decode(layer.codebook.encode(residual))


@pytest.mark.parametrize("options", [CENTRED, CAUSAL, DEEP, STEREO], ids=["centred", "causal", "deep", "stereo"])
@torch.no_grad()
def test_the_fast_encoder_equals_the_plain_one_in_float64(options, tone):
    model = tiny(torch.float64, **options)
    fast = fast_encodec_encoder(model)
    for num_samples in (4096, 4097, 4111, 9000):
        audio = tone(1, num_samples, options.get("audio_channels", 1), torch.float64)
        torch.testing.assert_close(fast(audio), model.encoder(audio), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("options", [CENTRED, CAUSAL], ids=["centred", "causal"])
@pytest.mark.parametrize("num_clips", [1, 3])
@torch.no_grad()
def test_the_fast_encoder_gives_the_same_codes(options, num_clips, tone):
    # In float64 no two codes are tied by rounding, so equal mathematics means equal codes on every CPU.
    model = tiny(torch.float64, **options)
    audio = tone(num_clips, 8001, dtype=torch.float64)
    fill_codebooks(model, tone(2, 8001 + 16, dtype=torch.float64))
    codes = model.quantizer.encode(model.encoder(audio))
    assert len(codes.unique()) > 20
    assert torch.equal(model.quantizer.encode(fast_encodec_encoder(model)(audio)), codes)


@pytest.mark.parametrize("options", [CENTRED, CAUSAL], ids=["centred", "causal"])
@torch.no_grad()
def test_the_fast_encoder_differs_by_rounding_only_in_float32(options, tone):
    model, audio = tiny(**options), tone(3, 8001)
    plain = torch.cat([model.encoder(clip[None]) for clip in audio])
    torch.testing.assert_close(fast_encodec_encoder(model)(audio), plain, rtol=1e-3, atol=1e-5 * plain.std().item())


@pytest.mark.parametrize("options", [CENTRED, CAUSAL, STEREO], ids=["centred", "causal", "stereo"])
@torch.no_grad()
def test_compiled_stages_have_the_bits_of_the_plain_encoder(options, tone):
    # Wide enough for vectors, and long enough for the ways that PyTorch takes with real clips.
    model = tiny(**{"upsampling_ratios": [4, 2], **options, "num_filters": 32})
    stages = encodec_encoder.read_stages(list(model.encoder.layers)[:-3])
    # An even number: PyTorch computes the ELU of up to 31 numbers at the very end with other instructions.
    audio = tone(2, 21060, options.get("audio_channels", 1))
    plain = torch.cat([model.encoder(clip[None]) for clip in audio])
    fast = fast_encodec_encoder(model)(audio)
    torch.testing.assert_close(fast, plain, rtol=1e-3, atol=1e-5 * plain.std().item())
    layers = [conv for stage in stages for conv in (*stage.convolutions, *stage.shortcuts)]
    if any(conv.compiled is None for conv in layers):
        pytest.skip("there is no C compiler, or PyTorch adds up in another order on this processor")
    assert all(stage.is_compiled([conv.over(30000) for conv in stage.convolutions]) for stage in stages)
    assert torch.equal(fast, plain)


@pytest.mark.parametrize("reason", ["no compiler", "other order", "several threads", "no oneDNN"])
@torch.no_grad()
def test_stages_are_left_to_pytorch_where_the_compiled_ones_do_not_apply(reason, tone, monkeypatch):
    model, audio = tiny(**CENTRED, num_filters=32), tone(1, 21003)
    if reason == "no compiler":
        monkeypatch.setattr(convolution, "load_frame_kernel", lambda: None)
    elif reason == "other order":
        monkeypatch.setattr(convolution, "find_order", lambda kernel, shape: None)
    elif reason == "several threads":
        monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    else:
        monkeypatch.setattr(convolution, "has_onednn", lambda: False)
    monkeypatch.setattr(FrameConvolution, "__call__", None)
    torch.testing.assert_close(fast_encodec_encoder(model)(audio), model.encoder(audio), rtol=1e-3, atol=1e-4)


@torch.no_grad()
def test_a_clip_does_not_depend_on_the_others_of_its_batch(tone):
    fast, audio = fast_encodec_encoder(tiny(**CENTRED)), tone(3, 5000)
    assert torch.equal(fast(audio), torch.cat([fast(clip[None]) for clip in audio]))


@torch.no_grad()
def test_encoding_twice_gives_the_same_bits_and_leaves_the_audio_alone(tone):
    fast, audio = fast_encodec_encoder(tiny(**CAUSAL)), tone(MIN_CLIPS, 5000)
    before = audio.clone()
    assert torch.equal(fast(audio), fast(audio))
    assert torch.equal(audio, before)


@torch.no_grad()
def test_a_large_batch_equals_its_clips(tone):
    model = tiny(torch.float64, **CENTRED)
    fast, audio = fast_encodec_encoder(model), tone(MIN_CLIPS + 1, 5000, dtype=torch.float64)
    alone = torch.cat([model.encoder(clip[None]) for clip in audio])
    torch.testing.assert_close(fast(audio), alone, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("options", [CENTRED, CAUSAL], ids=["centred", "causal"])
@torch.no_grad()
def test_short_clips_are_encoded_as_the_plain_module_does(options, tone):
    model = tiny(torch.float64, **options)
    fast = fast_encodec_encoder(model)
    for num_samples in (1, 2, 15, 16, 17, 160, 300, 400):
        audio = tone(2, num_samples, dtype=torch.float64)
        torch.testing.assert_close(fast(audio), model.encoder(audio), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("options", [{"norm_type": "time_group_norm"}, {"num_residual_layers": 0}])
def test_models_it_does_not_know_keep_their_own_encoder(options):
    model = tiny(**options)
    assert fast_encodec_encoder(model) is model.encoder


def test_fp16_keeps_the_plain_encoder():
    model = tiny(torch.float16)
    assert fast_encodec_encoder(model) is model.encoder


def test_bf16_keeps_the_plain_encoder_on_processors_without(monkeypatch):
    monkeypatch.setattr(encodec_encoder, "has_fast_bf16", lambda: False)
    model = tiny(torch.bfloat16)
    assert fast_encodec_encoder(model) is model.encoder


@pytest.mark.parametrize("num_channels", [1, 3])
def test_frames_are_an_image_whose_strides_say_that_its_channels_come_last(num_channels):
    x = convolution.frame_major(torch.randn(1, num_channels, 50)[..., 10:40])
    image = convolution.as_image(x)
    assert image.data_ptr() == x.data_ptr() and torch.equal(image[:, :, 0], x)
    assert image.stride() == (30 * num_channels, 1, 30 * num_channels, num_channels)


@pytest.mark.parametrize("options", [CENTRED, CAUSAL], ids=["centred", "causal"])
@torch.no_grad()
def test_the_fast_encoder_in_bf16_is_as_exact_as_the_plain_one(options, tone, monkeypatch):
    monkeypatch.setattr(encodec_encoder, "has_fast_bf16", lambda: True)  # torch has bf16 everywhere, fast or not
    model, audio = tiny(torch.float64, **options), tone(MIN_CLIPS, 5000, dtype=torch.float64)
    exact = model.encoder(audio)
    rounded = tiny(torch.float64, **options).bfloat16()  # the same weights, rounded once
    plain = torch.cat([rounded.encoder(clip[None]) for clip in audio.bfloat16()])
    fast = fast_encodec_encoder(rounded)(audio.bfloat16())
    errors = [(one.double() - exact).square().mean().sqrt().item() for one in (fast, plain)]
    # Both round every layer to 8 bits once, the plain one after a weight norm that it rounds, too.
    assert 0 < errors[0] <= 1.5 * errors[1] and errors[1] < 0.1 * exact.std().item()
    assert fast.dtype == torch.bfloat16 and fast.shape == exact.shape


def test_weights_elsewhere_than_on_the_cpu_keep_the_plain_encoder():
    model = tiny().to("meta")
    assert fast_encodec_encoder(model) is model.encoder


def test_no_graph_is_kept(tone):
    assert not fast_encodec_encoder(tiny())(tone(1, 5000)).requires_grad


OURS = {
    "plain": our_seanet(causal=False),
    "lstm": our_seanet(lstm_layers=2, conv_shortcut=True),
    "deep": our_seanet(causal=False, num_residual_layers=2, pad_mode="zero", weight_norm=False, strides=(3, 5)),
}


@pytest.mark.parametrize("network", OURS.values(), ids=OURS)
@pytest.mark.parametrize("num_samples", [30, 4097, 9000])
@torch.no_grad()
def test_codecs_that_are_trained_here_have_the_fast_encoder_too(network, num_samples, tone):
    model = ours(network)
    fast, audio = fast_encodec_encoder(model), tone(2, num_samples, dtype=torch.float64)
    assert fast is not model.encoder
    torch.testing.assert_close(fast(audio), model.encoder(audio), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("network", OURS.values(), ids=OURS)
@torch.no_grad()
def test_they_give_the_codes_of_the_network(network, tone):
    model, audio = ours(network), tone(3, 8001, dtype=torch.float64)
    codec = OwnCodec(model, Checkpoint("ours", "ours", "ours"), OwnOptions(num_codebooks=3, beam=1))
    codes = model.encode(audio, 3)
    assert len(codes.unique()) > 10
    assert torch.equal(codec.encode(audio).array, codes)


@pytest.mark.parametrize(
    "network",
    [
        our_seanet(activation=Snake()),
        our_seanet(activation=Elu(alpha=0.5)),
        our_seanet(num_residual_layers=0),
        SpectralConfig(hop_length=16, window=64, dim=8, encoder_width=8, encoder_blocks=1, decoder_width=8),
    ],
    ids=["snake", "another ELU", "no residual blocks", "spectra"],
)
@torch.no_grad()
def test_other_networks_of_ours_keep_their_own_encoder(network, tone):
    model, audio = ours(network), tone(2, 4000, dtype=torch.float64)
    assert fast_encodec_encoder(model) is model.encoder
    codec = OwnCodec(model, Checkpoint("ours", "ours", "ours"), OwnOptions(beam=1))
    assert torch.equal(codec.encode(audio).array, torch.cat([model.encode(clip[None]) for clip in audio]))
