"""Powers of short-time spectra, with a gradient that costs one inverse transform.

    audio ──► frames, one every quarter window ──► spectra X ──► |X|^2
    grad  ◄── overlap-add ◄── inverse of 2 g X   ◄────────────── g

The gradient of sum_k g_k |X_k|^2 with respect to sample n of a frame is the sum over k of 2 g_k Re(X_k e^(i w_k n)), a
real inverse transform. Left to itself, autograd fills the other half of the spectrum with zeros and transforms
complex numbers, after writing real and imaginary parts into zeros of their own: three times the time of it all.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from solfa.ops.frame_spectra import unit_hann

OVERLAP = 4
"""Windows that cover every sample."""


def power_spectrum(audio: Float[Tensor, "B C N"], window: int) -> Float[Tensor, "B C T F"]:
    """Square the magnitudes of `1 + N // hop` windows of a multiple of 4 samples; half precision becomes float32."""
    if window % OVERLAP:
        raise ValueError(f"power_spectrum: expected a window of a multiple of {OVERLAP} samples, found {window}")
    audio = audio.to(torch.promote_types(audio.dtype, torch.float32))
    power: Tensor = _PowerSpectrum.apply(audio.flatten(0, 1), window)  # type: ignore[no-untyped-call]
    return power.view(*audio.shape[:2], *power.shape[1:])


class _PowerSpectrum(torch.autograd.Function):
    """Audio `[b, N]` to powers `[b, T, F]`."""

    @staticmethod
    def forward(ctx: Any, audio: Float[Tensor, "b N"], window: int) -> Float[Tensor, "b T F"]:
        frames = F.pad(audio, (window // 2, window // 2)).unfold(-1, window, window // OVERLAP)
        spectra: Tensor = torch.fft.rfft(frames * unit_hann(window, audio.dtype, audio.device))
        ctx.save_for_backward(spectra)
        ctx.window, ctx.num_samples = window, audio.shape[-1]
        return spectra.real.square().add_(spectra.imag.square())

    @staticmethod
    def backward(ctx: Any, gradient: Float[Tensor, "b T F"]) -> tuple[Float[Tensor, "b N"], None]:
        if torch.is_grad_enabled():  # with create_graph=True; saved spectra have forgotten where they came from
            raise RuntimeError("power_spectrum: its gradient has no gradient; leave out create_graph=True")
        (spectra,) = ctx.saved_tensors
        window, num_samples = ctx.window, ctx.num_samples
        # Real and imaginary parts apart: a complex product would first make the gradient complex, too.
        terms = torch.view_as_complex(torch.view_as_real(spectra) * gradient[..., None])
        # The inverse adds every bin twice, as itself and as its mirror image, but for these two.
        terms[..., 0] *= 2
        terms[..., -1] *= 2
        frames = torch.fft.irfft(terms, n=window, norm="forward") * unit_hann(window, gradient.dtype, gradient.device)
        audio = _overlap_add(frames.unflatten(-1, (OVERLAP, -1)))
        return audio[:, window // 2 : window // 2 + num_samples], None


def _overlap_add(quarters: Float[Tensor, "b T Q hop"]) -> Float[Tensor, "b n"]:
    """Add up frames that are given in parts, each frame one part after the one before."""
    num_frames, num_parts = quarters.shape[1:3]
    total = quarters.new_zeros(len(quarters), num_frames + num_parts - 1, quarters.shape[3])
    for part in range(num_parts):
        total[:, part : part + num_frames] += quarters[:, :, part]
    return total.flatten(1)
