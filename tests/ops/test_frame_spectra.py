"""Short-time spectra of whole frames and back."""

import cmath
import math

import pytest
import torch

from solfa.ops.frame_spectra import to_audio, to_spectra


@pytest.mark.parametrize(("window", "hop"), [(8, 4), (32, 8), (10, 8), (21, 7)])
@pytest.mark.parametrize("num_samples", [1, 7, 8, 100])
def test_spectra_that_nothing_changed_give_back_the_samples(window, hop, num_samples):
    audio = torch.randn(3, num_samples, dtype=torch.float64)
    spectra = to_spectra(audio, window, hop)
    num_frames = math.ceil(num_samples / hop)
    assert spectra.shape == (3, num_frames, window // 2 + 1)
    back = to_audio(spectra, window, hop)
    assert back.shape == (3, num_frames * hop)
    torch.testing.assert_close(back[:, :num_samples], audio)
    torch.testing.assert_close(back[:, num_samples:], torch.zeros_like(back[:, num_samples:]))


def test_a_spectrum_is_the_transform_of_the_window_around_its_hop():
    window, hop, frame = 12, 4, 3
    audio = torch.randn(40, dtype=torch.float64)
    centre = frame * hop + hop // 2
    hann = torch.hann_window(window, dtype=torch.float64)
    around = audio[centre - window // 2 : centre + window // 2] * hann / hann.square().sum().sqrt()
    slow = torch.stack(
        [
            sum(value * cmath.exp(-2j * math.pi * k * n / window) for n, value in enumerate(around))
            for k in range(window // 2 + 1)
        ]
    )
    torch.testing.assert_close(to_spectra(audio, window, hop)[frame], slow, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("window", "hop"), [(4, 4), (4, 8), (9, 4)])
def test_a_window_that_cannot_be_centred_on_its_hop_is_refused(window, hop):
    with pytest.raises(ValueError, match=f"found {window} and {hop}"):
        to_spectra(torch.zeros(16), window, hop)
