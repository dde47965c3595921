"""The lowest coefficients of the modified discrete cosine transform (MDCT), one row per hop of audio.

    window      [------ 0 ------]                    two hops long, a half sine, centred on its own hop
    hop             [== 0 ==][== 1 ==][== 2 ==] ..   T = ceil(N / hop) rows, and T * hop samples back

    X[t, k] = sqrt(2 / hop) * sum_n  sin(pi (n + 1/2) / (2 hop)) x[n] cos(pi / hop (n + 1/2 + hop / 2) (k + 1/2))

What each frame folds over itself, the neighbouring frames cancel (Princen, Johnson and Bradley 1987): all `hop`
coefficients give back the samples, except in the first and last half hop, which have only one frame. Coefficient k is
the band around (k + 1/2) / (2 hop) of the sample rate. Unlike a spectrum, it has one real number per sample, with a
sign instead of a phase, so that a few numbers tell the waveform of the lowest band.
"""

import math
from functools import lru_cache

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from solfa.ops.frame_spectra import overlap_add


def to_mdct(audio: Float[Tensor, "*B N"], hop: int, num_coefficients: int) -> Float[Tensor, "*B T K"]:
    """Transform every hop of the audio with its surroundings; half precision becomes float32."""
    audio = audio.to(torch.promote_types(audio.dtype, torch.float32))
    basis = _basis(hop, num_coefficients, audio.dtype, audio.device)
    padded = F.pad(audio, (hop // 2, hop // 2 + -audio.shape[-1] % hop))
    return padded.unfold(-1, 2 * hop, hop) @ basis


def from_mdct(coefficients: Float[Tensor, "B T K"], hop: int) -> Float[Tensor, "B N"]:
    """Overlap-add the frames of the lowest coefficients to T * hop samples; half precision becomes float32."""
    exact = coefficients.to(torch.promote_types(coefficients.dtype, torch.float32))
    basis = _basis(hop, exact.shape[-1], exact.dtype, exact.device)
    return overlap_add(exact @ basis.mT, hop)[:, hop // 2 : -(hop // 2)]


@lru_cache(maxsize=64)
def _basis(hop: int, num_coefficients: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "W K"]:
    if hop % 2 or not 1 <= num_coefficients <= hop:
        raise ValueError(
            f"MDCT: expected an even hop and at most as many coefficients, found {hop} and {num_coefficients}"
        )
    with torch.inference_mode(False):
        sample = torch.arange(2 * hop, dtype=torch.float64)[:, None] + 0.5
        order = torch.arange(num_coefficients, dtype=torch.float64) + 0.5
        window = (math.pi / (2 * hop) * sample).sin() * math.sqrt(2 / hop)
        return (window * (math.pi / hop * (sample + hop / 2) * order).cos()).to(dtype).to(device)
