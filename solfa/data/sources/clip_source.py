"""What the loader needs from a dataset; `solfa.store.dataset.Dataset` provides it, and so do arrays in memory."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64, Int64, Num

from solfa.files.digest import value_sha256
from solfa.store.remote_files import RemoteFiles


@runtime_checkable
class SourceClip(Protocol):
    """One clip of a source: frame-major codes or latents, and what is known about them."""

    @property
    def id(self) -> str: ...
    @property
    def array(self) -> Num[np.ndarray, "T W"]:
        """Slicing it in time must not copy."""
        ...

    @property
    def caption(self) -> str | None: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


@runtime_checkable
class ClipSource(Protocol):
    """What a loader reads: clips by index, in a fixed order. `Dataset` and `MemoryClips` are such sources.

    It is pickled when worker processes are spawned.
    """

    @property
    def digest(self) -> str:
        """Hash of the list of clips; the order of an epoch and a loader's state belong to it."""
        ...

    @property
    def num_frames(self) -> Int64[np.ndarray, "clips"]:
        """Frames of every clip."""
        ...

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> SourceClip: ...


@dataclass(frozen=True)
class DrawWeights:
    """How often the clips of an epoch are drawn, relative to each other, and which of them belong together."""

    clips: Float64[np.ndarray, "clips"]
    """On any scale; zero for a clip that is never drawn."""
    parts: Int64[np.ndarray, "clips"]
    """Number of the part that each clip belongs to: draws are as exact for a whole part as for a single clip."""


@runtime_checkable
class WeightedSource(Protocol):
    """A source that may want its clips drawn by weight instead of once per epoch."""

    @property
    def weights(self) -> DrawWeights | None: ...


@runtime_checkable
class StoredSource(Protocol):
    """A source whose clips may be in object stores."""

    def remote_files(self) -> RemoteFiles | None:
        """Say which files of object stores the clips are in; None if all are here."""
        ...


def files_of_source(source: ClipSource) -> RemoteFiles | None:
    """Find the files of a source in object stores; None if all its clips are here."""
    return source.remote_files() if isinstance(source, StoredSource) else None


@dataclass(frozen=True)
class MemoryClip:
    """A clip that is an array in memory.

    >>> import numpy as np
    >>> from solfa.data import MemoryClip, MemoryClips
    >>> clips = MemoryClips([MemoryClip("a", np.zeros((100, 4), np.uint16), caption="a bell")])
    >>> len(clips), clips.num_frames
    (1, array([100]))
    """

    id: str
    array: Num[np.ndarray, "T W"]
    caption: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class MemoryClips:
    """A source of clips in memory, for a few arrays that are not worth a dataset.

    >>> import numpy as np
    >>> from solfa.data import Crop, MemoryClip, MemoryClips, make_loader
    >>> clips = MemoryClips([MemoryClip(f"{n}", np.full((100, 4), n, np.uint16)) for n in range(8)])
    >>> next(iter(make_loader(clips, Crop(num_frames=50, batch_size=4)))).arrays.shape
    torch.Size([4, 50, 4])
    """

    def __init__(self, clips: list[MemoryClip]) -> None:
        self._clips = clips
        self.num_frames = np.array([len(clip.array) for clip in clips], np.int64)
        parts = [(clip.id, str(clip.array.dtype), list(clip.array.shape), _content(clip.array)) for clip in clips]
        self.digest = value_sha256(parts)

    def __len__(self) -> int:
        return len(self._clips)

    def __getitem__(self, index: int, /) -> MemoryClip:
        return self._clips[index]


def _content(array: Num[np.ndarray, "T W"]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
