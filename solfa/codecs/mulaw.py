"""`mulaw`, the codec that needs no weights: one class per sample and channel, exact at every bit depth."""

from collections.abc import Mapping
from typing import Any, Literal, final

from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from solfa.codecs.inference import clip_by_clip
from solfa.codecs.protocol import Encoded, StoredClip, as_batch
from solfa.codecs.spec import CodecSpec
from solfa.codecs.waveform import check_audio
from solfa.config import Config
from solfa.files.digest import value_sha256
from solfa.ops.mulaw import mulaw_decode, mulaw_encode


class MulawOptions(Config):
    """What a user may choose about mu-law. One bit is refused: its two classes are full scale, and so is silence."""

    bits: int = Field(default=8, ge=2, le=16)
    sample_rate: int = Field(default=16_000, ge=1)
    num_channels: int = Field(default=1, ge=1, le=8)


@final
class MulawCodec:
    """Mu-law companding behind the codec protocol: a frame is a sample, a codebook is a channel."""

    name = "mulaw"
    kind: Literal["codes"] = "codes"
    hop_length = 1
    latent_channels = None

    def __init__(self, options: MulawOptions, device: str = "cpu") -> None:
        values = options.model_dump(mode="json")
        self.spec = str(CodecSpec(self.name, {key: str(value) for key, value in values.items()}))
        self.sample_rate, self.num_channels = options.sample_rate, options.num_channels
        self.frame_rate = float(options.sample_rate)
        self.num_codebooks, self.codebook_size = options.num_channels, 2**options.bits
        self.description: Mapping[str, Any] = {"family": "mulaw", "options": values}
        self.fingerprint = value_sha256(self.description)
        self._device = device

    def encode(self, audio: Float[Tensor, "B C N"]) -> Encoded:
        """Encode clips of equal length to codes `[B, N, C]`."""
        check_audio(audio, self.num_channels, self.name)
        # On the CPU whatever the device: float64 logarithms are the same numbers there, and missing on some devices.
        encode = clip_by_clip(lambda clips: mulaw_encode(clips, self.codebook_size))
        codes = encode(audio.cpu()).transpose(1, 2).contiguous()
        return Encoded(codes.to(self._device), audio.shape[-1])

    def decode(self, encoded: Encoded | StoredClip) -> Float[Tensor, "*B C N"]:
        """Decode to the centre of each class."""
        batch, single = as_batch(encoded, "cpu")
        codes = batch.array.cpu().long().transpose(1, 2)[..., : batch.num_samples]
        audio = mulaw_decode(codes, self.codebook_size).to(self._device)
        return audio[0] if single else audio
