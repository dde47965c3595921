"""The codecs without weights: one class per sample and channel, on a grid shared by encoding and decoding."""

from collections.abc import Mapping
from typing import Any, Literal, Protocol, final, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from solfa.codecs.inference import clip_by_clip
from solfa.codecs.protocol import Encoded, StoredClip, as_batch
from solfa.codecs.spec import CodecSpec
from solfa.codecs.waveform import check_audio
from solfa.files.digest import value_sha256
from solfa.ops.class_grid import LinearGrid, MulawGrid


@runtime_checkable
class WaveformOptions(Protocol):
    """The options of such a codec."""

    @property
    def sample_rate(self) -> int: ...
    @property
    def num_channels(self) -> int: ...
    @property
    def grid(self) -> LinearGrid | MulawGrid: ...


@final
class WaveformCodec:
    """A grid behind the codec protocol: a frame is a sample, a codebook is a channel."""

    kind: Literal["codes"] = "codes"
    hop_length = 1
    latent_channels = None
    is_pointwise = True

    def __init__(self, options: WaveformOptions, device: str = "cpu") -> None:
        self.grid = options.grid
        self.name = self.grid.kind
        self.sample_rate, self.num_channels = options.sample_rate, options.num_channels
        values = {"bits": self.grid.bits, "sample_rate": self.sample_rate, "num_channels": self.num_channels}
        self.spec = str(CodecSpec(self.name, {key: str(value) for key, value in values.items()}))
        self.frame_rate = float(self.sample_rate)
        self.num_codebooks, self.codebook_size = self.num_channels, self.grid.num_classes
        self.description: Mapping[str, Any] = {"family": self.name, "options": values}
        self.fingerprint = value_sha256(self.description)
        self._device = device

    def encode(self, audio: Float[Tensor, "B C N"]) -> Encoded:
        """Encode clips of equal length to codes `[B, N, C]`."""
        check_audio(audio, self.num_channels, self.name)
        # Always on the CPU: float64 gives the same numbers there, and some devices lack it.
        codes = clip_by_clip(self.grid.to_classes)(audio.cpu()).transpose(1, 2).contiguous()
        return Encoded(codes.to(self._device), audio.shape[-1])

    def decode(self, encoded: Encoded | StoredClip) -> Float[Tensor, "*B C N"]:
        """Decode to the centre of each class."""
        batch, single = as_batch(encoded, "cpu")
        codes = batch.array.cpu().long().transpose(1, 2)[..., : batch.num_samples]
        audio = self.grid.to_audio(codes).to(self._device)
        return audio[0] if single else audio
