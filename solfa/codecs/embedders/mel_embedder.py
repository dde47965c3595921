"""`mel`: how loud each band of a second is, and how much that changes. It has no weights and needs no package.

It hears timbre and loudness, and nothing of melody, rhythm or words. Use it to try things out; to judge a model, use a
network that was trained on music or speech.
"""

from collections.abc import Mapping
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from solfa.codecs.embedders.protocol import whole_windows
from solfa.files.digest import value_sha256
from solfa.ops.audio_losses import mel_power

_NUM_BANDS = 64
_FFT_SIZE = 1024
_FLOOR = 1e-8


@final
class MelEmbedder:
    """Mean and standard deviation of 64 mel bands, in decibels over 10, per second."""

    name = "mel"
    sample_rate = hop_length = 16_000
    width = 2 * _NUM_BANDS
    tags: tuple[str, ...] = ()

    def __init__(self, device: str = "cpu") -> None:
        self._device = device
        self.description: Mapping[str, Any] = {"family": self.name, "bands": _NUM_BANDS, "fft_size": _FFT_SIZE}
        self.fingerprint = value_sha256(self.description)

    def embed(self, audio: Float[Tensor, "B N"]) -> Float[Tensor, "B T W"]:
        """Embed every second."""
        return torch.stack([self._clip(clip) for clip in audio.to(self._device)])

    def _clip(self, clip: Float[Tensor, " N"]) -> Float[Tensor, "T W"]:
        windows = whole_windows(clip, self.hop_length)[:, None]
        levels = mel_power(windows, self.sample_rate, _FFT_SIZE, _NUM_BANDS)[:, 0].clamp(min=_FLOOR).log10()
        return torch.cat([levels.mean(dim=-1), levels.std(dim=-1)], dim=-1).float()
