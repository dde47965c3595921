"""Powers are those of the spectra, and so are their gradients, to the last sample of clips of any length."""

import pytest
import torch

from solfa.ops.audio_losses import spectrum
from solfa.ops.power_spectrum import power_spectrum


def noise(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return 0.3 * torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


@pytest.mark.parametrize("window", [4, 16, 256])
@pytest.mark.parametrize("num_samples", [1, 3, 50, 64, 67, 700])
def test_powers_and_their_gradients_are_those_of_spectra(window, num_samples):
    audio = noise(2, 3, num_samples).requires_grad_()
    transformed = spectrum(audio, window).mT
    expected = transformed.real.square() + transformed.imag.square()
    power = power_spectrum(audio, window)
    torch.testing.assert_close(power, expected)
    weights = noise(*power.shape)  # of both signs
    (found,) = torch.autograd.grad((weights * power).sum(), audio)
    (gradient,) = torch.autograd.grad((weights * expected).sum(), audio)
    torch.testing.assert_close(found, gradient)


def test_the_gradient_is_that_of_small_differences():
    assert torch.autograd.gradcheck(lambda audio: power_spectrum(audio, 8), noise(1, 2, 13).requires_grad_())


def test_silence_has_a_gradient_of_zero():
    audio = torch.zeros(1, 1, 100, requires_grad=True)
    power_spectrum(audio, 16).sum().backward()
    assert torch.equal(audio.grad, torch.zeros(1, 1, 100))


@pytest.mark.parametrize("window", [64, 1024])
def test_noise_has_its_variance_as_power_at_any_window(window):
    power = power_spectrum(noise(1, 1, 100_000), window)[..., 4:-4, 2:-2]
    assert power.mean().item() == pytest.approx(0.09, rel=0.03)


def test_half_precision_gets_a_gradient_in_half_precision():
    audio = noise(1, 1, 200, dtype=torch.float32).bfloat16().requires_grad_()
    power = power_spectrum(audio, 32)
    power.sum().backward()
    assert (power.dtype, audio.grad.dtype) == (torch.float32, torch.bfloat16)


def test_a_gradient_of_the_gradient_is_refused_not_wrong():
    audio = noise(1, 1, 40).requires_grad_()
    with pytest.raises(RuntimeError, match="its gradient has no gradient"):
        torch.autograd.grad(power_spectrum(audio, 8).sum(), audio, create_graph=True)


def test_windows_that_quarters_do_not_fill_are_refused():
    with pytest.raises(ValueError, match="a multiple of 4 samples, found 6"):
        power_spectrum(torch.zeros(1, 1, 20), 6)
