"""The whole network: lengths, determinism, the first codebooks, and that it can be trained."""

import pytest
import torch

from solfa.errors import ConfigError
from solfa.models.codec.bottlenecks import BottleneckConfig, Fsq, Gaussian, Rvq, RvqBottleneck
from solfa.models.codec.network import CodecModel
from solfa.nn.residual_beam import BEAM
from tests.models.codec.tiny_codec import BOTTLENECKS, HOP, tiny_config, tiny_model


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("num_channels", [1, 2])
def test_any_number_of_samples_comes_back_exactly(causal: bool, num_channels: int) -> None:
    model = tiny_model(causal=causal, num_channels=num_channels)
    with torch.no_grad():
        for num_samples in (1, 2, HOP - 1, HOP, HOP + 1, 7 * HOP, 7 * HOP + 13):
            audio = torch.randn(2, num_channels, num_samples)
            codes = model.encode(audio)
            assert codes.shape == (2, -(-num_samples // HOP), 4)
            decoded = model.decode(codes, num_samples)
            assert decoded.shape == audio.shape
            assert (model(audio).audio - decoded).abs().max() < 1e-6


@pytest.mark.parametrize("bottleneck", BOTTLENECKS)
def test_encoding_twice_gives_the_same_and_different_sounds_differ(bottleneck: BottleneckConfig) -> None:
    model = tiny_model(bottleneck)
    with torch.no_grad():
        audio = torch.randn(1, 1, 2000)
        assert torch.equal(model.encode(audio), model.encode(audio))
        assert not torch.equal(model.encode(audio), model.encode(0.1 * audio.flip(-1)))


@pytest.mark.parametrize("bottleneck", BOTTLENECKS[:3])
def test_fewer_codebooks_are_the_first_ones_and_decode(bottleneck: BottleneckConfig) -> None:
    model, audio = tiny_model(bottleneck), torch.randn(1, 1, 500)
    with torch.no_grad():
        few = model.encode(audio, num_codebooks=1)
        assert torch.equal(few, model.encode(audio)[..., :1])
        assert model.decode(few, 500).shape == audio.shape


@pytest.mark.parametrize("bottleneck", BOTTLENECKS)
def test_gradients_of_the_reconstruction_reach_every_parameter(bottleneck: BottleneckConfig) -> None:
    model = CodecModel(tiny_config(bottleneck))
    audio = torch.randn(2, 1, 900)
    made = model(audio)
    ((made.audio - audio).square().mean() + made.bottleneck.loss).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("bottleneck", BOTTLENECKS)
def test_with_its_codes_kept_only_the_decoder_learns(bottleneck: BottleneckConfig) -> None:
    model, audio = tiny_model(bottleneck), torch.randn(4, 1, 900)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        codes = model.encode(audio)
    model.keep_codes()
    optimizer = torch.optim.SGD([parameter for parameter in model.parameters() if parameter.requires_grad], lr=1.0)
    for _ in range(2):
        made = model.train()(audio)
        ((made.audio - audio).square().mean() + made.bottleneck.loss).backward()
        optimizer.step()
    changed = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
    assert changed and all(name.startswith("decoder.") for name in changed)
    with torch.no_grad():
        # Codes are equal; torch may round latents another way where no gradient can be asked for.
        torch.testing.assert_close(model.eval().encode(audio), codes)


def test_with_its_codebooks_kept_encoder_and_decoder_learn() -> None:
    model, audio = tiny_model(Rvq(num_codebooks=4, codebook_size=16, codebook_dim=3)), torch.randn(4, 1, 900)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.keep_codebooks()
    made = model.train()(audio)
    ((made.audio - audio).square().mean() + made.bottleneck.loss).backward()
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    same = {name for name, tensor in model.state_dict().items() if torch.equal(tensor, before[name])}
    assert same == {name for name in before if name.startswith("bottleneck.quantizer.")}


@pytest.mark.parametrize("bottleneck", [Fsq(), Gaussian(latent_channels=2)])
def test_only_codebooks_can_be_kept(bottleneck: BottleneckConfig) -> None:
    with pytest.raises(ConfigError, match=rf"keep_codebooks: expected a bottleneck rvq.*found {bottleneck.kind}"):
        tiny_model(bottleneck).keep_codebooks()


def test_with_its_codes_kept_a_codec_still_learns_to_decode_fewer_codebooks() -> None:
    model = tiny_model(Rvq(num_codebooks=4, codebook_size=16, dropout=1.0))
    model.keep_codes()
    latents = model.encoder(torch.randn(32, 1, 200))
    made = model.bottleneck.train()(latents)
    assert isinstance(model.bottleneck, RvqBottleneck)
    codes = model.bottleneck.encode(latents, beam=BEAM)
    used = [
        next(k for k in range(1, 5) if torch.allclose(model.bottleneck.decode(codes[[i]], k), made.latents[[i]]))
        for i in range(32)
    ]
    assert set(used) == {1, 2, 3, 4}


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.parametrize("bottleneck", [Rvq(num_codebooks=2, codebook_size=32, dropout=0.5), Fsq(num_codebooks=2)])
def test_training_lessens_the_error(bottleneck: BottleneckConfig) -> None:
    model = CodecModel(tiny_config(bottleneck, strides=(2, 2), num_filters=8, lstm_layers=0))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    time = torch.arange(400) / 8000
    errors = []
    for _ in range(80):
        pitches = 100 + 600 * torch.rand(4, 1, 1)
        audio = torch.sin(2 * torch.pi * pitches * time)
        made = model(audio)
        error = (made.audio - audio).square().mean()
        optimizer.zero_grad()
        (error + made.bottleneck.loss).backward()
        optimizer.step()
        errors.append(error.item())
    assert sum(errors[-10:]) < 0.4 * sum(errors[:10])


def test_audio_that_does_not_fit_is_refused() -> None:
    model = tiny_model()
    with pytest.raises(ConfigError, match=r"audio \[B, 1, N\] .*found \[1, 2, 80\]"):
        model.encode(torch.randn(1, 2, 80))
    with pytest.raises(ConfigError, match="at least one sample"):
        model(torch.randn(1, 1, 0))


def test_a_length_that_the_frames_do_not_have_is_refused() -> None:
    model = tiny_model()
    codes = model.encode(torch.randn(1, 1, 2 * HOP))
    for num_samples in (HOP, 2 * HOP + 1):
        with pytest.raises(ConfigError, match=r"41 to 80 samples for 2 frames, found"):
            model.decode(codes, num_samples)
    assert model.decode(codes).shape == (1, 1, 2 * HOP)
