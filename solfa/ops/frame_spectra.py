"""Short-time spectra of whole frames: T = ceil(N / hop) spectra of N samples, and T * hop samples back.

    window   [-------- 0 --------]
    hop             [= 0 =][= 1 =][= 2 =] ..      spectrum t is centred on its own hop

The ends are padded with zeros. The inverse applies the window once more and divides by the sum of its squares, so
unchanged spectra give back the samples.
"""

from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor


def to_spectra(audio: Float[Tensor, "*B N"], window: int, hop: int) -> Complex[Tensor, "*B T F"]:
    """Transform every hop of the audio with its surroundings; half precision becomes float32."""
    audio = audio.to(torch.promote_types(audio.dtype, torch.float32))
    margin = _margin(window, hop)
    padded = F.pad(audio, (margin, margin + -audio.shape[-1] % hop))
    frames: Tensor = padded.unfold(-1, window, hop)
    spectra: Tensor = torch.fft.rfft(frames * unit_hann(window, audio.dtype, audio.device))
    return spectra


def to_audio(spectra: Complex[Tensor, "B T F"], window: int, hop: int) -> Float[Tensor, "B N"]:
    """Overlap-add the frames of spectra to T * hop samples."""
    margin = _margin(window, hop)
    hann = unit_hann(window, spectra.real.dtype, spectra.device)
    frames = torch.fft.irfft(spectra, n=window) * hann
    total = overlap_add(frames, hop)
    weights = overlap_add(hann.square().expand(1, frames.shape[1], window), hop)
    return total[:, margin:-margin] / weights[:, margin:-margin]


def overlap_add(frames: Float[Tensor, "B T W"], hop: int) -> Float[Tensor, "B n"]:
    """Add up frames, each one hop after the one before."""
    num_frames, window = frames.shape[1:]
    length = (num_frames - 1) * hop + window
    return F.fold(frames.mT, (1, length), (1, window), stride=(1, hop)).flatten(1)


def _margin(window: int, hop: int) -> int:
    if window <= hop or (window - hop) % 2:
        raise ValueError(
            f"frames: expected a window that exceeds the hop by an even number of samples, found {window} and {hop}"
        )
    return (window - hop) // 2


@lru_cache(maxsize=64)
def unit_hann(window: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, " W"]:
    """Return a window of unit energy, as a normal tensor even when first needed in inference mode."""
    with torch.inference_mode(False):
        hann = torch.hann_window(window, dtype=dtype, device=device)
        return hann / hann.square().sum().sqrt()
