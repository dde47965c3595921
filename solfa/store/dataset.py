"""Read a dataset: clips by index, id or slice, as zero-copy views of memory-mapped files.

Opening reads two small JSON files; the rows of a shard are read when one of its clips is needed.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, overload

import numpy as np
import pyarrow as pa

from solfa.errors import ConfigError, StoreError
from solfa.files.digest import value_sha256
from solfa.files.stores.place import Place, read_place
from solfa.store.file_cache import FileCache
from solfa.store.landmark_file import StoredLandmarks
from solfa.store.layout import committed_shards, manifests, read_commits, read_info, read_manifest
from solfa.store.local_copy import wanted_file
from solfa.store.plan_file import list_shards
from solfa.store.remote_files import RemoteFiles
from solfa.store.requests import each
from solfa.store.retries import standing_failures
from solfa.store.schema import META_SCHEMA, Commit, DatasetInfo
from solfa.store.shard_reader import Clip, FailedClip, ShardReader, read_shards
from solfa.store.stored_group import StoredClips, StoredGroup

T = TypeVar("T")

Verify = Literal["never", "once"]
"""When arrays are compared with their checksums: never, or each when a process first reads it."""


def open_dataset(
    path: str | Place,
    *,
    manifest: int | None = None,
    partial: bool = False,
    verify: Verify = "never",
    cache_bytes: int | None = None,
) -> "Dataset":
    """Open a dataset at its latest or a given manifest, or, with `partial`, whatever has been committed so far.

    With `verify="once"`, the first time that a process reads a clip it compares the array with its checksum, and a
    damaged array is an error.

    `path` is a folder or the URL of an object store, `s3://bucket/music.solfa`. Of one in an object store, this machine
    keeps up to `cache_bytes` in the folder of SOLFA_CACHE_DIR (None: what SOLFA_CACHE_BYTES says, or 32 GB).

    >>> import solfa
    >>> solfa.open_dataset("music.solfa")
    Dataset('music.solfa', 7 clips, codes [T, 8] uint16)
    """
    root = read_place(path)
    cache = None if isinstance(root, Path) else FileCache.choose(cache_bytes)
    info = read_info(root)
    if verify not in get_args(Verify):
        raise ConfigError(f"`verify`: expected {' or '.join(map(repr, get_args(Verify)))}, found {verify!r}")
    if partial:
        commits = tuple(read_commits(root, committed_shards(root)))
        digest = value_sha256([commit.model_dump(mode="json") for commit in commits])
        return Dataset(root, info, commits, digest, verify=verify, cache=cache)
    existing = manifests(root)
    if not existing:
        planned, done = len(list_shards(root)), len(committed_shards(root))
        raise StoreError(
            f"{root}: unfinished, {done} of {planned} shards are committed; "
            "run the same `solfa encode` again to finish it, or open it with partial=True"
        )
    if manifest is not None and manifest not in existing:
        raise StoreError(f"{root}: there is no manifest {manifest}, only {existing}")
    pinned = read_manifest(root, manifest or existing[-1])
    if pinned.fingerprint != info.fingerprint:
        raise StoreError(
            f"{root}: manifest {pinned.number} belongs to another dataset; files of two datasets were mixed"
        )
    return Dataset(root, info, pinned.commits, pinned.digest, verify=verify, cache=cache)


class Dataset(Sequence[Clip]):
    """The clips of a dataset, or a selection of them, in a fixed order.

    It is a sequence: an index or an id gives a clip, a slice gives a dataset. Opening reads two small JSON files, and
    arrays are views of memory-mapped files, or byte ranges of objects, so a large dataset costs nothing until you use
    it.

    >>> import solfa
    >>> dataset = solfa.open_dataset("music.solfa")
    >>> dataset["guitar.wav"].caption
    'A guitar plays one low note.'
    >>> dataset.num_frames.max()  # the lengths of all clips are known without reading them
    np.int64(2250)
    >>> len(dataset[:3]), len(dataset.filter(lambda clip: clip.caption is not None))
    (3, 2)
    """

    def __init__(
        self,
        path: Place,
        info: DatasetInfo,
        commits: tuple[Commit, ...],
        manifest_digest: str,
        rows: np.ndarray[Any, Any] | None = None,
        verify: Verify = "never",
        cache: FileCache | None = None,
    ) -> None:
        self.path, self.info, self._verify = path, info, verify
        self.cache = cache
        """What this machine keeps of it; None for a dataset of this machine."""
        self._commits, self._manifest_digest = commits, manifest_digest
        self._rows = rows
        """Indices into all committed clips; None for all of them in order."""
        # A plain list: bisecting it for one number takes a tenth of the time numpy takes.
        self._starts = [0, *accumulate(commit.num_clips for commit in commits)]
        self._shards: dict[int, ShardReader] = {}
        self._num_clips = self._starts[-1] if rows is None else len(rows)
        self._anticipated: set[ShardReader] = set()

    def __getstate__(self) -> dict[str, Any]:
        # Open files are not pickled: a loader's worker process opens its own.
        kept = {key: value for key, value in self.__dict__.items() if key not in ("num_frames", "_by_id", "_clips")}
        return {**kept, "_shards": {}, "_anticipated": set()}

    def __len__(self) -> int:
        return self._num_clips

    def __repr__(self) -> str:
        spec = self.info.array
        return f"Dataset({str(self.path)!r}, {len(self)} clips, {spec.kind} [T, {spec.width}] {spec.dtype})"

    @overload
    def __getitem__(self, index: int | str) -> Clip: ...
    @overload
    def __getitem__(self, index: slice) -> "Dataset": ...
    def __getitem__(self, index: int | str | slice) -> "Clip | Dataset":
        if isinstance(index, slice):
            return self.select(range(*index.indices(len(self))))
        if isinstance(index, str):
            return self[self.index_of(index)]
        shard, row = self._locate(index)
        return shard.clip(row)

    def __contains__(self, item: object) -> bool:
        return item in self._by_id if isinstance(item, str) else super().__contains__(item)

    def __iter__(self) -> Iterator[Clip]:
        for index in range(len(self)):
            yield self[index]

    def window(self, index: int, start: int, stop: int) -> np.ndarray[Any, Any]:
        """View frames `start` to `stop` of a clip: one contiguous byte range."""
        shard, row = self._locate(index)
        return shard.array(row)[start:stop]

    def _locate(self, index: int) -> tuple[ShardReader, int]:
        if not -self._num_clips <= index < self._num_clips:
            raise IndexError(f"clip {index} is out of range for a dataset of {self._num_clips} clips")
        if index < 0:
            index += self._num_clips
        position = index if self._rows is None else int(self._rows[index])
        number = bisect_right(self._starts, position) - 1
        return self._shard(number), position - self._starts[number]

    def _shard(self, number: int) -> ShardReader:
        shard = self._shards.get(number)
        if shard is None:
            shard = self._shards[number] = ShardReader(
                self.path, self._commits[number], self.info.array, self.cache, verify=self._verify == "once"
            )
        return shard

    def group(self, indices: np.ndarray[Any, Any], /) -> StoredGroup:
        """Find some clips; arrays in an object store are read at once, and kept until the next call."""
        found = self._clips.group(indices if self._rows is None else self._rows[indices])
        if self.cache is not None:
            self._anticipate(found.places())
        return found

    @cached_property
    def _clips(self) -> StoredClips:
        is_plain = self.cache is None and self._verify == "never"
        return StoredClips(self._starts, self.info.array, self._shard, is_plain=is_plain)

    def _anticipate(self, places: Sequence[tuple[ShardReader, int]]) -> None:
        rows: dict[ShardReader, list[int]] = {}
        for shard, row in places:
            rows.setdefault(shard, []).append(row)
        for shard in self._anticipated - rows.keys():
            shard.anticipate([])
        self._anticipated = set(rows)
        each(self.path, lambda shard: shard.anticipate(rows[shard]), rows)

    def remote_files(self) -> RemoteFiles | None:
        """Say which files of an object store the clips are in; None if they are here."""
        if self.cache is None:
            return None
        positions = np.arange(self._starts[-1]) if self._rows is None else self._rows
        files = tuple(wanted_file(self.path, "data", commit.data) for commit in self._commits)
        return RemoteFiles(files, np.searchsorted(self._starts, positions, side="right") - 1, self.cache)

    def _of_shards(self, read: Callable[[ShardReader], T]) -> list[T]:
        return read_shards(self.path, self._commits, self.info.array, read, self.cache)

    @cached_property
    def num_frames(self) -> np.ndarray[Any, Any]:
        """The number of frames of every clip, int64."""
        lengths = self._of_shards(lambda shard: shard.num_frames)
        all_lengths = np.concatenate([np.zeros(0, np.int64), *lengths])
        return all_lengths if self._rows is None else all_lengths[self._rows]

    def landmarks(self) -> StoredLandmarks:
        """Read what every clip sounds like, as landmarks: its content fingerprint."""
        found = StoredLandmarks.join(self._of_shards(lambda shard: shard.landmarks()))
        return found if self._rows is None else found.select(self._rows)

    @property
    def digest(self) -> str:
        """A hash of the pinned manifest and the selection."""
        if self._rows is None:
            return self._manifest_digest
        return value_sha256([self._manifest_digest, value_sha256(self._rows.tolist())])

    def select(self, indices: Sequence[int] | np.ndarray[Any, Any] | range) -> "Dataset":
        """Keep the clips at `indices`, in that order."""
        given = np.asarray(indices).reshape(-1)
        if given.size and given.dtype.kind not in "iu":
            raise TypeError(f"select takes integer indices, found {given.dtype}; convert a mask with numpy.flatnonzero")
        wanted = given.astype(np.int64)
        if wanted.size and not (wanted.min() >= -len(self) and wanted.max() < len(self)):
            raise IndexError(
                f"indices {wanted.min()} to {wanted.max()} are out of range for a dataset of {len(self)} clips"
            )
        wanted = np.where(wanted < 0, wanted + len(self), wanted)
        rows = wanted if self._rows is None else self._rows[wanted]
        return Dataset(self.path, self.info, self._commits, self._manifest_digest, rows, self._verify, self.cache)

    def filter(self, keep: Callable[[Clip], bool]) -> "Dataset":
        """Keep the clips for which `keep` returns True."""
        return self.select([index for index in range(len(self)) if keep(self[index])])

    @cached_property
    def _by_id(self) -> dict[str, int]:
        return {clip_id: index for index, clip_id in enumerate(self.ids())}

    def ids(self) -> list[str]:
        """List the ids of all clips."""
        ids = [clip_id for found in self._of_shards(lambda shard: shard.ids) for clip_id in found]
        return ids if self._rows is None else [ids[row] for row in self._rows.tolist()]

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Read what is known of all clips, one row each, as an Arrow table of the columns of a shard's meta file.

        >>> import solfa
        >>> solfa.open_dataset("music.solfa").columns(["id", "seconds"]).num_rows
        7
        """
        unknown = [name for name in names if name not in META_SCHEMA.names]
        if unknown:
            raise ConfigError(f"`names`: expected some of {', '.join(META_SCHEMA.names)}, found {', '.join(unknown)}")
        tables = self._of_shards(lambda shard: shard.columns(names))
        schema = pa.schema([META_SCHEMA.field(name) for name in names])
        found = pa.concat_tables([schema.empty_table(), *tables]).combine_chunks()
        return found if self._rows is None else found.take(pa.array(self._rows))

    def index_of(self, clip_id: str) -> int:
        """Find a clip by its id."""
        index = self._by_id.get(clip_id)
        if index is None:
            raise KeyError(f"{self.path}: none of {len(self)} clips has the id {clip_id!r}")
        return index

    def failures(self) -> list[FailedClip]:
        """List the clips that could not be encoded, with reasons; one that a later shard has again is not listed."""
        return standing_failures(self.path, self._commits, self.info.array)

    @property
    def num_failed(self) -> int:
        """How many clips could not be encoded."""
        return len(self.failures())

    @property
    def num_bytes(self) -> int:
        """The size of the data and meta files."""
        return sum(commit.data.size_bytes + commit.meta.size_bytes for commit in self._commits)
