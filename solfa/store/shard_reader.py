"""Read one shard: its meta rows, and its arrays as views into the memory-mapped data file, wherever that is."""

import zlib
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from solfa.errors import StoreError
from solfa.files.json_objects import parse_object
from solfa.files.stores.place import Place
from solfa.store.column_numbers import numbers_of, texts_of
from solfa.store.file_cache import FileCache
from solfa.store.landmark_file import LandmarkFile, StoredLandmarks
from solfa.store.local_copy import readable, wanted_file
from solfa.store.remote_arrays import ArrayPlaces, RemoteArrays
from solfa.store.requests import each
from solfa.store.schema import META_SCHEMA, ArraySpec, Commit

T = TypeVar("T")


class FailedClip(NamedTuple):
    """A clip without an array, and why."""

    id: str
    error: str
    uri: str
    key: str
    """The recording that it is, or is a segment of."""


class Clip:
    """One clip: its array, and what is known about it, read on demand.

    >>> import solfa
    >>> clip = solfa.open_dataset("music.solfa")["drums/loop.flac"]
    >>> clip
    Clip('drums/loop.flac', uint16 [300, 8], 4.00 s)
    >>> clip.metadata["bpm"], clip.source["sample_rate"]
    (90, 22050)
    """

    __slots__ = ("_row", "_shard", "array")

    def __init__(self, shard: "ShardReader", row: int, array: np.ndarray[Any, Any]) -> None:
        self._shard, self._row = shard, row
        self.array = array
        """[T, W], read-only, a view of the file."""

    def __repr__(self) -> str:
        return f"Clip({self.id!r}, {self.array.dtype} {list(self.array.shape)}, {self.seconds:.2f} s)"

    @property
    def id(self) -> str:
        return self._shard.ids[self._row]

    @property
    def num_frames(self) -> int:
        return len(self.array)

    @property
    def num_samples(self) -> int:
        """The length of the waveform at the codec's sample rate."""
        return int(self._value("num_samples"))

    @property
    def seconds(self) -> float:
        return float(self._value("seconds"))

    @property
    def caption(self) -> str | None:
        return self._shard.caption(self._row)

    @property
    def metadata(self) -> dict[str, Any]:
        return self._shard.metadata(self._row)

    @property
    def scales(self) -> np.ndarray[Any, Any] | None:
        """Loudness of each chunk, for codecs that normalise."""
        scales = self._value("scales")
        return None if scales is None else np.array(scales, np.float32)

    @property
    def source(self) -> dict[str, Any]:
        """Where it came from: uri, tar member, first and last sample, rate, channels, length and format there."""
        names = ("key", "uri", "member", "start", "stop")
        found = {name: self._value(name) for name in names}
        described = ("sample_rate", "num_channels", "num_samples", "format")
        return found | {name: self._value(f"source_{name}") for name in described}

    def check(self) -> None:
        """Compare the array with its stored checksum; a damaged array is an error."""
        self._shard.check(self._row, self.array)

    def _value(self, column: str) -> Any:
        return self._shard.value(column, self._row)


class ShardReader:
    """The committed files of one shard, opened lazily; with `verify`, an array is checked when it is first read."""

    def __init__(
        self, root: Place, commit: Commit, spec: ArraySpec, cache: FileCache | None = None, *, verify: bool = False
    ) -> None:
        self._root, self._commit, self._spec, self._cache = root, commit, spec, cache
        self._verify = verify

    def __str__(self) -> str:
        return f"{self._root}/data/{self._commit.data.name}"

    @property
    def _meta(self) -> str:
        return f"{self._root}/meta/{self._commit.meta.name}"

    def __getstate__(self) -> dict[str, Any]:
        # Caches and mappings are not pickled: a pickled clip takes its own array along, not the whole file.
        return {name: self.__dict__[name] for name in ("_root", "_commit", "_spec", "_cache", "_verify")}

    def clip(self, row: int) -> Clip:
        """Read one clip of the shard."""
        return Clip(self, row, self.array(row))

    def array(self, row: int) -> np.ndarray[Any, Any]:
        """View the array of one clip."""
        if self.remote is not None:
            return self.remote.array(row)
        values, bounds, width = self._values
        start, stop = bounds[row]
        array = values[start:stop].reshape(-1, width)
        if self._verify and self._unchecked[row]:
            self.check(row, array)
            self._unchecked[row] = 0
        return array

    def value(self, column: str, row: int) -> Any:
        """Read one thing that is known about a clip."""
        return self._stored_columns[column][row].as_py()

    def caption(self, row: int) -> str | None:
        """Read the caption of a clip."""
        return self.value("caption", row)  # type: ignore[no-any-return]

    def metadata(self, row: int) -> dict[str, Any]:
        """Read the metadata of a clip."""
        try:
            return parse_object(self.value("metadata", row))
        except ValueError as error:
            raise StoreError(f"clip {self.ids[row]!r}: its metadata is not a JSON object ({error})") from None

    def check(self, row: int, array: np.ndarray[Any, Any]) -> None:
        """Compare the array of a clip with its stored checksum; a damaged array is an error."""
        if zlib.crc32(np.ascontiguousarray(array).data) != self._checksums[row]:
            raise StoreError(
                f"{self}: the array of clip {self.ids[row]!r} is damaged; run `solfa verify --repair` to encode "
                "its shard again"
            )

    @cached_property
    def _checksums(self) -> list[int | None]:
        return self._read_meta(["status", "checksum"]).column("checksum").to_pylist()  # type: ignore[no-any-return]

    @cached_property
    def _unchecked(self) -> bytearray:
        """1 for every clip that this process has not compared with its checksum yet."""
        return bytearray(b"\1") * self._commit.num_clips

    def anticipate(self, rows: Sequence[int]) -> None:
        """Read the arrays of some clips at once, if they are in an object store; they are kept until the next call."""
        if self.remote is not None:
            self.remote.anticipate(rows)

    @cached_property
    def remote(self) -> RemoteArrays | None:
        """Reads the arrays if they are in an object store."""
        if isinstance(self._root, Path):
            return None
        offsets, lengths, columns = self._places(self._commit.data.size_bytes, "checksum")
        checksums = pc.fill_null(columns.column("checksum"), 0).to_pylist()
        places = ArrayPlaces(offsets.tolist(), lengths.tolist(), checksums)
        return RemoteArrays(self._root, self._commit, self._spec, places, self._cache or FileCache.choose())

    def mapped(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """View the whole data file, which must be here, as items; say where each clip begins and how many it has."""
        values, bounds, _ = self._values
        starts, stops = np.array(bounds, np.int64).reshape(-1, 2).T
        return values, starts, stops - starts

    def id_texts(self) -> tuple[pa.Buffer, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the ids of all clips as one buffer of UTF-8; say where in it each begins and ends."""
        return texts_of(self._read_meta(["status", "id"]).column("id"))

    @cached_property
    def _values(self) -> tuple[np.ndarray[Any, Any], list[tuple[int, int]], int]:
        """The whole data file as one array of items, and the item range of each clip, bounds-checked."""
        assert isinstance(self._root, Path)
        path = self._root / "data" / self._commit.data.name
        dtype = self._spec.numpy_dtype
        size = _expect_size(path, self._commit.data.size_bytes)
        offset, length, _ = self._places(size)
        # Closed right away: the mapping stays, and a thousand open shards take no file descriptors.
        with pa.memory_map(str(path)) as file:
            mapped = file.read_buffer()
        values = np.frombuffer(mapped, dtype, count=size // dtype.itemsize)
        start = offset // dtype.itemsize
        stop = start + length // dtype.itemsize
        return values, list(zip(start.tolist(), stop.tolist(), strict=True)), self._spec.width

    def _places(self, size: int, *more: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], pa.Table]:
        """Find the byte offset and length of every array in a data file of `size` bytes; return `more` columns, too."""
        columns = self._read_meta(["status", "byte_offset", "byte_length", "num_frames", *more])
        offset, length, frames = (
            numbers_of(columns.column(name), missing=-1) for name in ("byte_offset", "byte_length", "num_frames")
        )
        # Neither offset + length nor frames * bytes_per_frame: hostile numbers could overflow.
        outside = (
            (offset < 0) | (length < 0) | (length > size - offset) | (offset % self._spec.numpy_dtype.itemsize != 0)
        )
        whole_frames, rest = np.divmod(length, self._spec.bytes_per_frame)
        if (outside | (whole_frames != frames) | (rest != 0)).any() or size == 0:
            raise StoreError(f"{self._meta}: its byte ranges do not fit {self._commit.data.name}; run `solfa verify`")
        return offset, length, columns

    @cached_property
    def num_frames(self) -> np.ndarray[Any, Any]:
        """The number of frames of every clip, int64."""
        return numbers_of(self._read_meta(["status", "num_frames"]).column("num_frames"), missing=-1)

    @cached_property
    def ids(self) -> list[str]:
        """The ids of all clips."""
        return self._read_meta(["status", "id"]).column("id").to_pylist()  # type: ignore[no-any-return]

    @cached_property
    def stored(self) -> pa.Table:
        """The meta rows of the clips that have an array."""
        return self._read_meta(META_SCHEMA.names).combine_chunks()

    @cached_property
    def _stored_columns(self) -> dict[str, pa.ChunkedArray]:
        # To look a column up in a table takes as long as to read a value from it.
        return dict(zip(META_SCHEMA.names, self.stored.columns, strict=True))

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Read some of the meta columns of the clips that have an array, and do not keep them."""
        return self._read_meta(list(dict.fromkeys(["status", *names]))).select(list(names))

    def landmarks(self) -> StoredLandmarks:
        """Read what every clip sounds like, where that is known."""
        return LandmarkFile(self._root, self._commit.shard, self._cache).of(self.ids)

    def failures(self) -> list[FailedClip]:
        """List the clips without an array."""
        table = self._read_meta(["status", "id", "error", "uri", "key"], status="failed")
        return [FailedClip(row["id"], row["error"] or "unknown", row["uri"], row["key"]) for row in table.to_pylist()]

    def _read_meta(self, columns: Sequence[str], status: str = "ok") -> pa.Table:
        wanted = wanted_file(self._root, "meta", self._commit.meta)
        if isinstance(self._root, Path):
            _expect_size(self._root / wanted.key, wanted.size_bytes)
        try:
            # Not pq.read_table, which imports pyarrow.dataset and, if installed, pandas: half a second.
            with pq.ParquetFile(readable(self._root, wanted, self._cache)) as file:
                table = file.read(columns=list(columns), use_threads=False)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise StoreError(f"{self._meta}: cannot be read ({error}); run `solfa verify`") from None
        expected = [META_SCHEMA.field(name) for name in columns]
        if [(field.name, field.type) for field in table.schema] != [(field.name, field.type) for field in expected]:
            raise StoreError(f"{self._meta}: its columns are not those of this format; run `solfa verify`")
        every_clip_is_stored = not self._commit.num_failed and status == "ok"
        rows = table if every_clip_is_stored else table.filter(pc.equal(table.column("status"), status))
        claimed = self._commit.num_clips if status == "ok" else self._commit.num_failed
        if rows.num_rows != claimed:
            raise StoreError(f"{self._meta}: expected {claimed} clips, found {rows.num_rows}; run `solfa verify`")
        return rows


def read_shards(
    root: Place,
    commits: Sequence[Commit],
    spec: ArraySpec,
    read: Callable[[ShardReader], T],
    cache: FileCache | None = None,
) -> list[T]:
    """Read something of every shard, in order; from an object store, of many shards at once."""
    return each(root, read, (ShardReader(root, commit, spec, cache) for commit in commits))


def _expect_size(path: Path, size: int) -> int:
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        raise StoreError(f"{path}: missing, although it was committed; run `solfa verify`") from None
    if found != size:
        raise StoreError(f"{path}: expected {size} bytes, found {found}; run `solfa verify`")
    return found
