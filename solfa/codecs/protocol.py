"""The one interface of all codecs, and what they produce.

Arrays are frame-major: codes `[B, T, K]`, latents `[B, T, Z]`. All clips of a batch have the same number of waveform
samples, because padding one clip to the length of another changes its codes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Num
from numpy.typing import NDArray
from torch import Tensor

from solfa.files.digest import value_sha256

Kind = Literal["codes", "latents"]


@dataclass(frozen=True)
class Encoded:
    """A batch of encoded clips, on the codec's device.

    >>> import torch
    >>> from solfa.codecs import Encoded, load_codec
    >>> codec = load_codec("solfa_24khz")
    >>> codes = torch.zeros(1, 75, 8, dtype=torch.int64)  # [B, T, K]: a second of codes, from a model, say
    >>> codec.decode(Encoded(codes, num_samples=24_000)).shape
    torch.Size([1, 1, 24000])
    """

    array: Num[Tensor, "B T W"]
    """Codes (any integer dtype, W = num_codebooks) or latents (float, W = latent_channels)."""
    num_samples: int
    """Length of every clip at the codec's sample rate; decoding trims to it."""
    scales: Float[Tensor, "B F"] | None = None
    """Loudness of each chunk, for codecs that normalise (EnCodec 48 kHz)."""


@runtime_checkable
class StoredClip(Protocol):
    """What `Codec.decode` needs from a clip that was read from a dataset."""

    @property
    def array(self) -> NDArray[Any]: ...  # [T, W]
    @property
    def num_samples(self) -> int: ...
    @property
    def scales(self) -> NDArray[Any] | None: ...


@runtime_checkable
class Codec(Protocol):
    """Maps a waveform to codes or latents and back, deterministically.

    Anything with these attributes is a codec: `solfa.encode` takes the object itself.

    >>> import torch
    >>> from solfa.codecs import Codec, load_codec
    >>> codec = load_codec("mulaw", sample_rate=8_000)
    >>> isinstance(codec, Codec)
    True
    >>> encoded = codec.encode(torch.zeros(2, 1, 800))  # [B, C, N]
    >>> encoded.array.shape, codec.decode(encoded).shape
    (torch.Size([2, 800, 1]), torch.Size([2, 1, 800]))
    """

    @property
    def name(self) -> str:
        """The name people use for it; to load it again, use `spec`."""
        ...

    @property
    def spec(self) -> str:
        """The text that `load_codec` turns into this codec again, e.g. `mulaw:bits=8,sample_rate=16000`."""
        ...

    @property
    def sample_rate(self) -> int: ...
    @property
    def num_channels(self) -> int: ...
    @property
    def hop_length(self) -> int:
        """Waveform samples per frame."""
        ...

    @property
    def frame_rate(self) -> float: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def num_codebooks(self) -> int | None:
        """K; None for latents."""
        ...

    @property
    def codebook_size(self) -> int | None:
        """Entries per codebook; None for latents."""
        ...

    @property
    def latent_channels(self) -> int | None:
        """Z; None for codes."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 of everything that changes what `encode` gives: architecture, weights, options, precision."""
        ...

    @property
    def description(self) -> Mapping[str, Any]:
        """The parts of the fingerprint in plain JSON values, so that two datasets can be compared by name."""
        ...

    def encode(self, audio: Float[Tensor, "B C N"]) -> Encoded:
        """Encode clips of equal length, N >= 1; every sample is covered by a frame."""
        ...

    def decode(self, encoded: Encoded | StoredClip) -> Float[Tensor, "*B C N"]:
        """Decode to exactly `num_samples` samples: `[B, C, N]` for a batch, `[C, N]` for a stored clip."""
        ...


def is_pointwise(codec: Codec) -> bool:
    """Say whether each frame follows from its own sample alone, as the codec's `is_pointwise`, if it has one, does.

    Clips laid end to end are then encoded to their arrays end to end, and nobody need wait for clips of equal length.
    """
    return bool(getattr(codec, "is_pointwise", False))


def decoding_fingerprint(codec: Codec) -> str:
    """Hash everything that changes what `decode` gives: also a decoder that the codec's own fingerprint leaves out."""
    return value_sha256([codec.fingerprint, getattr(codec, "decoder_sha256", None)])


def as_batch(encoded: Encoded | StoredClip, device: torch.device | str) -> tuple[Encoded, bool]:
    """View a stored clip as a batch of one on `device`; the flag says whether it was a stored clip.

    Start the `decode` of your own codec with it:

    >>> import solfa
    >>> from solfa.codecs import as_batch
    >>> batch, single = as_batch(solfa.open_dataset("music.solfa")["guitar.wav"], "cpu")
    >>> batch.array.shape, batch.array.dtype, single
    (torch.Size([1, 225, 8]), torch.int64, True)
    """
    if isinstance(encoded, Encoded):
        return encoded, False
    # Stored arrays are read-only memory maps of dtypes (uint16) that torch barely supports: copy and widen.
    array = np.asarray(encoded.array)
    wide = array.astype(np.int64 if array.dtype.kind in "ui" else np.float32)
    scales = None if encoded.scales is None else torch.from_numpy(np.array(encoded.scales, np.float32))[None]
    return (
        Encoded(
            torch.from_numpy(wide)[None].to(device),
            encoded.num_samples,
            None if scales is None else scales.to(device),
        ),
        True,
    )
