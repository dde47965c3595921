"""The one interface of all embedders, and how they cut a clip into windows."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

WINDOWS_AT_ONCE = 16


@runtime_checkable
class Embedder(Protocol):
    """Turns mono audio into one vector per window, deterministically.

    >>> import torch
    >>> from solfa.evaluate import Embedder, load_embedder
    >>> embedder = load_embedder("mel")
    >>> isinstance(embedder, Embedder), embedder.sample_rate, embedder.hop_length
    (True, 16000, 16000)
    >>> embedder.embed(torch.zeros(2, 40_000)).shape  # [B, N] to [B, T, D]
    torch.Size([2, 2, 128])
    """

    @property
    def name(self) -> str:
        """The name, path or Hub id that `load_embedder` takes."""
        ...

    @property
    def sample_rate(self) -> int: ...
    @property
    def hop_length(self) -> int:
        """Samples from one window to the next."""
        ...

    @property
    def width(self) -> int:
        """D, the numbers per window."""
        ...

    @property
    def tags(self) -> tuple[str, ...]:
        """What it can hear, if it is a tagger: the log-odds of these follow the D numbers. Otherwise nothing."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that changes the numbers."""
        ...

    @property
    def description(self) -> Mapping[str, Any]:
        """The parts of the fingerprint in plain values."""
        ...

    def embed(self, audio: Float[Tensor, "B N"]) -> Float[Tensor, "B T W"]:
        """Embed the whole windows of clips of equal length; a clip shorter than a window is repeated to fill one."""
        ...


@runtime_checkable
class HearsText(Protocol):
    """An embedder that puts texts and sounds into one space, so that their agreement can be measured."""

    def embed_texts(self, texts: list[str]) -> Float[Tensor, "B D"]:
        """Embed texts as vectors of length 1."""
        ...


def whole_windows(audio: Float[Tensor, " N"], window: int) -> Float[Tensor, "T window"]:
    """Cut a clip into windows next to each other and drop what is left; repeat a clip that is shorter than one."""
    if len(audio) < window:
        audio = audio.repeat(-(-window // len(audio)))
    return audio[: len(audio) // window * window].reshape(-1, window)


def in_pieces(windows: Tensor) -> tuple[Tensor, ...]:
    """Split windows into what fits in memory; only the clip decides what is computed together."""
    return torch.split(windows, WINDOWS_AT_ONCE)
