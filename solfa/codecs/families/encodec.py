"""EnCodec (arXiv 2210.13438), with the model of HF transformers: 24 kHz, MusicGen's 32 kHz, and 48 kHz stereo.

The 24 and 32 kHz models encode a clip as a whole: T = ceil(N / hop_length).

The 48 kHz model cuts it into chunks of `chunk_length` samples (1 s) every `chunk_stride` (0.99 s), divides each by its
loudness, and encodes it separately. Chunk i covers the samples [i * chunk_stride, min(i * chunk_stride + chunk_length,
N)), for every i with i * chunk_stride < N, and has ceil(length / hop_length) frames. The library keeps chunks as
[F, B, K, 150], the last one padded with zeros that belong to no audio; here only the real frames are joined in time:

    array [B, T, K] = frames of chunk 0 | frames of chunk 1 | ... | frames of chunk F - 1        scales [B, F]

All lengths follow from N alone, so the array, scales and num_samples are enough to decode.
"""

from collections.abc import Callable, Mapping
from math import log2
from typing import Any, Literal, final

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from solfa.codecs.checkpoint import Checkpoint, load_pretrained
from solfa.codecs.cpu.encodec_encoder import fast_encodec_encoder
from solfa.codecs.cpu.exact_product import with_nearest_codewords
from solfa.codecs.inference import clip_by_clip, dtype_of, exact_inference, set_for_inference
from solfa.codecs.overlap import Chunks, overlap_add
from solfa.codecs.protocol import Encoded, StoredClip, as_batch
from solfa.codecs.waveform import check_audio, fit_length
from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.pretrained.tensors import weights_sha256

ARCHITECTURE = (
    "sampling_rate",
    "audio_channels",
    "normalize",
    "chunk_length",
    "chunk_stride",
    "upsampling_ratios",
    "norm_type",
    "dilation_growth_rate",
    "num_residual_layers",
    "use_causal_conv",
    "pad_mode",
    "trim_right_ratio",
    "codebook_size",
)
"""Config values that change the numbers but do not show in the weights."""


class EncodecOptions(Config):
    """The options of EnCodec."""

    num_codebooks: int | None = Field(default=None, ge=1)
    """Keep the first K codebooks; None keeps those of the checkpoint's largest bandwidth."""


@final
class EncodecCodec:
    """EnCodec behind the codec protocol; `model` is a `transformers.EncodecModel`."""

    kind: Literal["codes"] = "codes"
    latent_channels = None

    def __init__(
        self,
        model: Any,
        checkpoint: Checkpoint,
        options: EncodecOptions,
        encoder: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        config = model.config
        self.num_codebooks = options.num_codebooks or config.num_quantizers
        if self.num_codebooks > config.num_quantizers:
            raise ConfigError(
                f"codec {checkpoint.name}: num_codebooks: expected at most {config.num_quantizers}, "
                f"found {self.num_codebooks}"
            )
        self.name = checkpoint.name
        self.spec = checkpoint.spec({"num_codebooks": self.num_codebooks})
        self.sample_rate, self.num_channels = config.sampling_rate, config.audio_channels
        self.hop_length, self.codebook_size = config.hop_length, config.codebook_size
        self.frame_rate = self.sample_rate / self.hop_length
        self.description: Mapping[str, Any] = {
            "family": "encodec",
            "architecture": {name: _plain(getattr(config, name)) for name in ARCHITECTURE},
            "weights_sha256": weights_sha256(model.state_dict()),
            "options": {"num_codebooks": self.num_codebooks},
            "precision": checkpoint.precision,
        }
        self.fingerprint = value_sha256(self.description)
        # To compare distances in 8 bits would change more codes than the encoder's rounding does, and saves nothing.
        set_for_inference(model, checkpoint.precision, checkpoint.device, exact=model.quantizer)
        self.model, self._device, self._normalize = model, checkpoint.device, config.normalize
        self.has_scales = bool(config.normalize)
        self._encoder: Callable[[Tensor], Tensor] = encoder or fast_encodec_encoder(model)
        self._quantizer = with_nearest_codewords(model.quantizer)
        self._quantize = clip_by_clip(lambda latents: self._quantizer.encode(latents, self._bandwidth).permute(1, 2, 0))
        # The quantizer takes kilobits per second and rounds down to codebooks: adding half a codebook is safe.
        bits_per_codebook = log2(config.codebook_size) * config.frame_rate
        self._bandwidth = (self.num_codebooks + 0.5) * bits_per_codebook / 1000

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, options: Mapping[str, object]) -> "EncodecCodec":
        """Load a transformers checkpoint."""
        from transformers import EncodecModel

        parsed = parse_config(EncodecOptions, options, f"codec {checkpoint.name}")
        return cls(load_pretrained(checkpoint, EncodecModel), checkpoint, parsed)

    def encode(self, audio: Float[Tensor, "B C N"]) -> Encoded:
        """Encode clips of equal length to codes `[B, T, K]`, with one scale per chunk if the model normalises."""
        check_audio(audio, self.num_channels, self.name)
        audio = audio.to(self._device)
        spans = self._chunks(audio.shape[-1]).spans()
        with exact_inference():
            encoded = [self._encode_chunk(audio[..., start:stop]) for start, stop in spans]
        codes = torch.cat([codes for codes, _ in encoded], dim=1)
        scales = torch.cat([scale for _, scale in encoded], dim=1) if self._normalize else None
        return Encoded(codes, audio.shape[-1], scales)

    def _encode_chunk(self, audio: Float[Tensor, "B C N"]) -> tuple[Int[Tensor, "B T K"], Float[Tensor, "B 1"]]:
        scale = torch.ones(len(audio), 1, device=audio.device)
        if self._normalize:
            mono = audio.sum(1, keepdim=True) / audio.shape[1]
            loudness = mono.pow(2).mean(dim=-1, keepdim=True).sqrt() + 1e-8
            audio, scale = audio / loudness, loudness.view(-1, 1)
        embeddings = self._encoder(audio.to(dtype_of(self.model)))
        codewords = self.model.quantizer.layers[0].codebook.embed
        return self._quantize(embeddings.to(codewords.dtype)).contiguous(), scale

    def decode(self, encoded: Encoded | StoredClip) -> Float[Tensor, "*B C N"]:
        """Decode each chunk, scale it back, cross-fade the overlaps and trim."""
        batch, single = as_batch(encoded, self._device)
        if self._normalize and batch.scales is None:
            raise ConfigError(
                f"codec {self.name}: expected scales along with the codes, found none; store them with the clip"
            )
        chunks = self._chunks(batch.num_samples)
        frames = self._split(batch.array.long(), chunks)
        with exact_inference():
            pieces = [self._decode_chunk(codes, batch.scales, place) for place, codes in enumerate(frames)]
            audio = pieces[0] if chunks.length is None else overlap_add(pieces, chunks)
        audio = fit_length(audio.float(), batch.num_samples)
        return audio[0] if single else audio

    def _split(self, codes: Int[Tensor, "B T K"], chunks: Chunks) -> tuple[Tensor, ...]:
        if chunks.length is None:
            return (codes,)
        num_frames = chunks.num_frames(self.hop_length)
        if sum(num_frames) != codes.shape[1]:
            raise ConfigError(
                f"codec {self.name}: expected {sum(num_frames)} frames for {chunks.num_samples} samples, "
                f"found {codes.shape[1]}; decode whole clips with this codec"
            )
        return torch.split(codes, num_frames, dim=1)

    def _decode_chunk(
        self, codes: Int[Tensor, "B T K"], scales: Float[Tensor, "B F"] | None, place: int
    ) -> Float[Tensor, "B C N"]:
        embeddings = self.model.quantizer.decode(codes.permute(2, 0, 1))
        audio: Tensor = self.model.decoder(embeddings.to(dtype_of(self.model)))
        return audio if scales is None else audio * scales[:, place].to(audio).view(-1, 1, 1)

    def _chunks(self, num_samples: int) -> Chunks:
        config = self.model.config
        return Chunks(num_samples, config.chunk_length, config.chunk_stride)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
