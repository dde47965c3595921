"""The weights of a flow model that was trained elsewhere, under the names that they have here."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor


class ForeignFlow(NamedTuple):
    """What somebody published, translated."""

    settings: Mapping[str, Any]
    """What they fix of a model's settings."""
    num_channels: int
    """Of the latents."""
    state: Mapping[str, Tensor]
    """The weights of a diffusion transformer, by our names."""
    text_projection: Mapping[str, Tensor] | None
    """The linear layer after the text encoder, if there is one."""
    scale: float
    """What latents are divided by."""
    trained_frames: int
    """The length of a training example; 0 if the files do not say."""
    left: Mapping[str, int]
    """How many tensors of other parts stay in their files."""
