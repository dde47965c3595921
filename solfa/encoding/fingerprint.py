"""What determines a dataset's numbers, apart from the audio: the codec, and how recordings are cut and stored."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from solfa.codecs.codec_memory import CodecFacts
from solfa.config import Config
from solfa.errors import ConfigError
from solfa.store.schema import ArraySpec, DatasetInfo, DType

if TYPE_CHECKING:
    from solfa.codecs.protocol import Codec

DEFAULT_SEGMENT_SECONDS = 30.0

_DEVICE_BATCH_SECONDS = {"cpu": 160.0, "mps": 30.0, "cuda": 120.0}
"""On CPUs codecs take the clips of a batch one by one, except for layers that read their weights per frame (LSTMs)."""

_OF_CODEC = ("codec", "array")
"""Parts of a fingerprint that follow from the codec."""


class EncodeSettings(Config):
    """How recordings are cut, batched and stored."""

    segment_seconds: float = Field(default=DEFAULT_SEGMENT_SECONDS, ge=0)
    """Longest clip; 0 keeps every recording whole."""
    batch_seconds: float = Field(default=_DEVICE_BATCH_SECONDS["cpu"], ge=0)
    """Audio per codec call, in clips of equal length; 0 encodes one clip at a time."""
    dtype: DType | None = None
    """How arrays are stored; None means the smallest integer type that fits, or float16 for latents."""


def default_batch_seconds(device: str) -> float:
    """Choose how much audio a device gets at once."""
    return _DEVICE_BATCH_SECONDS.get(device.partition(":")[0], 0.0)


def array_spec(codec: "Codec | CodecFacts", dtype: DType | None = None) -> ArraySpec:
    """Describe the arrays that a codec produces."""
    if codec.kind == "codes":
        assert codec.num_codebooks is not None and codec.codebook_size is not None
        width = codec.num_codebooks
        default: DType = "uint16" if codec.codebook_size <= 1 << 16 else "uint32"
    else:
        assert codec.latent_channels is not None
        width, default = codec.latent_channels, "float16"
    try:
        return ArraySpec(
            kind=codec.kind,
            width=width,
            codebook_size=codec.codebook_size,
            sample_rate=codec.sample_rate,
            num_channels=codec.num_channels,
            hop_length=codec.hop_length,
            dtype=dtype or default,
        )
    except ValueError as error:
        raise ConfigError(f"dtype {dtype}: cannot hold the {codec.kind} of {codec.name} ({error})") from None


def dataset_info(codec: "Codec | CodecFacts", settings: EncodeSettings) -> DatasetInfo:
    """Describe the dataset that a codec and settings make; its fingerprint covers all that affects the numbers."""
    parts = {
        "codec": dict(codec.description),
        "segment_seconds": settings.segment_seconds,
        "batch_seconds": settings.batch_seconds,
        "channel_rule": "mean",
        "resampler": "soxr VHQ",
    }
    return DatasetInfo.of(codec.spec, array_spec(codec, settings.dtype), parts)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """List what differs between two fingerprints, by name: `segment_seconds: 30.0 in the dataset, 10.0 now`.

    For two kinds of codecs only the kinds are listed: comparing the rest, or their arrays, makes no sense.
    """
    before, after = (_family(parts) for parts in (old, new))
    if None not in (before, after) and before != after:
        yield _difference("codec", before, after)
        old, new = ({key: part for key, part in parts.items() if key not in _OF_CODEC} for parts in (old, new))
    yield from _differences(old, new, "")


def _family(parts: Mapping[str, Any]) -> Any:
    codec = parts.get("codec")
    return codec.get("family") if isinstance(codec, Mapping) else None


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for key in sorted(old.keys() | new.keys()):
        name, before, after = f"{prefix}{key}", old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _differences(before, after, f"{name}.")
        elif before != after:
            yield _difference(name, before, after)


def _difference(name: str, before: Any, after: Any) -> str:
    return f"{name}: {_short(before)} in the dataset, {_short(after)} now"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:20] + "…" + text[-12:]
