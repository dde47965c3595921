"""A generated clip: its audio, its name, and what it was made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

RANK = "rank-"
"""What the files of sorted clips begin with."""


@dataclass(frozen=True, eq=False)
class GeneratedClip:
    """Audio that a model generated: `[C, N]` floats with full scale at 1.

    >>> import torch
    >>> from solfa.generate import GeneratedClip
    >>> clip = GeneratedClip("piano", torch.zeros(1, 24_000), sample_rate=24_000, rank="1")
    >>> clip.file_name, clip.samples().shape
    ('rank-1-piano', (1, 24000))
    """

    name: str
    audio: Tensor | NDArray[Any]
    sample_rate: int
    metadata: Mapping[str, Any] = field(default_factory=dict)
    rank: str | None = None
    """Its place in likelihood among the clips it was sorted with, 1 for the most likely; with zeros in front, so that
    all ranks have the same length."""

    @property
    def file_name(self) -> str:
        """What its files are called, without extension: its name, after its rank if it has one."""
        return self.name if self.rank is None else f"{RANK}{self.rank}-{self.name}"

    def samples(self) -> NDArray[np.float32]:
        """Return the audio as a numpy array `[C, N]`."""
        audio = self.audio.detach().float().cpu().numpy() if isinstance(self.audio, Tensor) else self.audio
        assert audio.ndim == 2, f"{self.name}: expected audio [C, N], found {audio.shape}"
        return np.asarray(audio, np.float32)
