"""The records of a dataset: what dataset.json, commits and manifests hold, and the columns of data and meta files."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from solfa.config import Config
from solfa.files.digest import canonical_json, value_sha256

FORMAT_VERSION = 1

ROWS_PER_BATCH = 256
BYTES_PER_BATCH = 16 << 20
"""A record batch of a data file ends at whichever limit comes first."""

DType = Literal["uint16", "uint32", "float16", "float32"]


class ArraySpec(Config):
    """What every array of a dataset looks like.

    >>> from solfa.store import ArraySpec
    >>> form = {"kind": "codes", "width": 4, "codebook_size": 2048, "dtype": "uint16"}
    >>> ArraySpec(**form, sample_rate=32_000, num_channels=1, hop_length=640).frame_rate
    50.0
    """

    kind: Literal["codes", "latents"]
    width: int = Field(ge=1)
    """K codebooks, or Z latent channels."""
    codebook_size: int | None = Field(default=None, ge=2)
    sample_rate: int = Field(ge=1)
    num_channels: int = Field(ge=1)
    hop_length: int = Field(ge=1)
    dtype: DType

    @model_validator(mode="after")
    def _kind_fits_dtype(self) -> "ArraySpec":
        if (self.kind == "codes") != (self.codebook_size is not None):
            raise ValueError("codes need a codebook_size, and only codes have one")
        if (self.kind == "codes") != self.dtype.startswith("uint"):
            raise ValueError(f"{self.kind} cannot be stored as {self.dtype}")
        if self.codebook_size is not None and self.codebook_size - 1 > np.iinfo(self.dtype).max:
            raise ValueError(f"a codebook of {self.codebook_size} entries does not fit {self.dtype}")
        return self

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.hop_length

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return np.dtype(self.dtype).newbyteorder("<")

    @property
    def bytes_per_frame(self) -> int:
        return self.width * self.numpy_dtype.itemsize


class DatasetInfo(Config):
    """The content of dataset.json: written once, before anything else."""

    format_version: Literal[1] = 1
    codec: str
    """The text that loads the codec again (a name, a path, a Hub id)."""
    array: ArraySpec
    parts: Mapping[str, Any]
    """Every setting that affects the numbers, by name."""
    fingerprint: str

    @model_validator(mode="after")
    def _fingerprint_is_of_the_parts(self) -> "DatasetInfo":
        if self.fingerprint != value_sha256(self.parts):
            raise ValueError("the fingerprint is not the hash of its parts")
        if self.parts.get("array") != self.array.model_dump():
            raise ValueError("the array does not match the fingerprint")
        return self

    @classmethod
    def of(cls, codec: str, array: ArraySpec, parts: Mapping[str, Any]) -> "DatasetInfo":
        """Describe a new dataset; the fingerprint follows from the parts."""
        complete = {**parts, "array": array.model_dump(), "format_version": FORMAT_VERSION}
        return cls(codec=codec, array=array, parts=complete, fingerprint=value_sha256(complete))


class FileRecord(Config):
    """One immutable file, by name, size and content."""

    name: str = Field(pattern=r"^[0-9]{5,}(-[0-9a-f]{16})?\.(arrow|parquet)$")
    size_bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Commit(Config):
    """The content of commit/NNNNN.json: with this file, the shard exists."""

    shard: int = Field(ge=0)
    data: FileRecord
    meta: FileRecord
    num_clips: int = Field(ge=0)
    """Clips that have an array; failed ones are counted separately."""
    num_failed: int = Field(ge=0)
    num_frames: int = Field(ge=0)
    num_samples: int = Field(ge=0)
    """Waveform samples that the arrays represent, at the codec's sample rate."""
    made_by: Mapping[str, str]
    """Versions and device type, or where the arrays were imported from."""


class PlanRecord(Config):
    """One part of the plan as a manifest pins it."""

    file: FileRecord
    num_clips: int = Field(ge=0)
    num_shards: int = Field(ge=0)


class Manifest(Config):
    """The content of manifest/NNNNNN.json: the finished state that a reader pins."""

    number: int = Field(ge=1)
    fingerprint: str
    plans: tuple[PlanRecord, ...]
    commits: tuple[Commit, ...]

    @property
    def digest(self) -> str:
        """A hash of what it pins: two manifests with equal content are the same dataset."""
        return value_sha256(self.model_dump(mode="json", exclude={"number"}))


def record_bytes(record: Config) -> bytes:
    """Serialise a record exactly as it is written to disk."""
    return canonical_json(record.model_dump(mode="json")) + b"\n"


def data_schema(spec: ArraySpec) -> pa.Schema:
    """Return the columns of a data file; the array is flattened frame by frame."""
    item = pa.from_numpy_dtype(spec.numpy_dtype)
    return pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("array", pa.list_(pa.field("item", item, nullable=False)), nullable=False),
            pa.field("num_frames", pa.int64(), nullable=False),
        ],
        metadata={"solfa": canonical_json({"format_version": FORMAT_VERSION, **spec.model_dump()})},
    )


META_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),  # ok | failed
        pa.field("error", pa.string()),
        pa.field("num_frames", pa.int64(), nullable=False),
        pa.field("num_samples", pa.int64(), nullable=False),
        pa.field("seconds", pa.float64(), nullable=False),
        pa.field("byte_offset", pa.int64()),  # of the array in the data file; null for failed clips
        pa.field("byte_length", pa.int64()),
        pa.field("checksum", pa.uint32()),  # CRC-32 of those bytes
        pa.field("scales", pa.list_(pa.float32())),
        pa.field("caption", pa.string()),
        pa.field("metadata", pa.string(), nullable=False),  # a JSON object
        pa.field("key", pa.string(), nullable=False),
        pa.field("uri", pa.string(), nullable=False),
        pa.field("member", pa.string()),
        pa.field("start", pa.int64(), nullable=False),  # in samples of the recording
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("source_sample_rate", pa.int32(), nullable=False),
        pa.field("source_num_channels", pa.int32(), nullable=False),
        pa.field("source_num_samples", pa.int64(), nullable=False),
        pa.field("source_format", pa.string(), nullable=False),
    ]
)
