"""What a model makes: a clip of audio, its name, and what it was made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class GeneratedClip:
    """Audio that a model made: `[C, N]` floats, full scale at one."""

    name: str
    audio: Tensor | NDArray[Any]
    sample_rate: int
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def samples(self) -> NDArray[np.float32]:
        """Give the audio as numpy on the host, `[C, N]`."""
        audio = self.audio.detach().float().cpu().numpy() if isinstance(self.audio, Tensor) else self.audio
        assert audio.ndim == 2, f"{self.name}: expected audio [C, N], found {audio.shape}"
        return np.asarray(audio, np.float32)
