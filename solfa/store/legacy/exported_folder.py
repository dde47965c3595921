"""Read a folder that `solfa export` wrote, in any of its formats, so that importing it gives the same dataset."""

import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from solfa.errors import StoreError
from solfa.files.id_names import flat_name
from solfa.store.export.clip_record import ClipRecord, outcome_of, parse_record
from solfa.store.export.format_names import ExportFormat
from solfa.store.export.marker import FAILURES, MARKER, Marker, read_marker
from solfa.store.export.musiccaps import AUDIO_FOLDER, CLIPS, bare_names
from solfa.store.export.npy_bytes import parse_npy
from solfa.store.legacy.found_clips import ArrayLayout, Axes, checked, load_npy, read_json_object
from solfa.store.schema import ArraySpec
from solfa.store.shard_writer import Outcome

_FRAMES_FIRST = Axes(ArrayLayout.FRAMES_FIRST, None)
_CHANNELS_FIRST = Axes(ArrayLayout.CHANNELS_FIRST, None)


class Exported(NamedTuple):
    """One clip of an export, its array not loaded yet."""

    record: ClipRecord
    where: str
    load: Callable[[], np.ndarray[Any, Any]]
    axes: Axes


class ExportedClips:
    """The clips of an export, in the order of the original dataset."""

    def __init__(self, root: Path) -> None:
        self.marker: Marker = read_marker(root)
        if not self.marker.complete:
            raise StoreError(f"{root}: this export was interrupted; run the same `solfa export` again to finish it")
        self._root = root
        self.name = f"Solfa export ({self.marker.format})"
        self.notes: Sequence[str] = []

    def guess_width(self) -> int | None:
        """Take the width from the marker."""
        return self.marker.dataset.array.width

    def outcomes(self, spec: ArraySpec) -> Iterator[Outcome]:
        """Read the clips with arrays, then the failed ones."""
        count = 0
        for record, where, load, axes in _READERS[self.marker.format](self._root):
            count += 1
            try:
                loaded = load() if record.num_frames else np.zeros((0, spec.width), spec.numpy_dtype)
                turned = axes.frame_major(loaded, spec, where) if record.num_frames else loaded
                padded = self.marker.pad_frames > record.num_frames
                array = checked(turned[: record.num_frames] if padded else turned, spec, where)
            except StoreError as error:
                yield outcome_of(record, None, str(error))
            else:
                yield outcome_of(record, array, None)
        if count != self.marker.num_clips:
            self.notes = [f"the export had {self.marker.num_clips} clips, but only {count} are left"]
        for record in _read_lines(self._root / FAILURES) if self.marker.num_failed else ():
            yield outcome_of(record, None, record.error)


def _read_stable_audio(root: Path) -> Iterator[Exported]:
    for path in sorted((root / "0").glob("*.json")):
        record = parse_record(read_json_object(path).get("solfa"), f"{path} (solfa)")
        array = path.with_suffix(".npy")
        yield Exported(record, str(array), partial(load_npy, array), _CHANNELS_FIRST)


def _read_musiccaps(root: Path) -> Iterator[Exported]:
    ids = [record.id for record in _read_lines(root / CLIPS)]
    for name, record in zip(bare_names(ids), _read_lines(root / CLIPS), strict=True):
        array = root / AUDIO_FOLDER / f"{flat_name(name)}.npy"
        if not array.is_file():  # exports of earlier versions are named after the whole id
            array = root / AUDIO_FOLDER / f"{flat_name(record.id)}.npy"
        yield Exported(record, str(array), partial(load_npy, array), _CHANNELS_FIRST)


def _read_npy(root: Path) -> Iterator[Exported]:
    def record_of(path: Path) -> ClipRecord:
        return parse_record(read_json_object(path), str(path))

    records = [path for path in root.rglob("*.json") if path != root / MARKER]
    for path in sorted(records, key=lambda path: record_of(path).index):
        array = path.parent / f"{path.name.removesuffix('.json')}.npy"
        yield Exported(record_of(path), str(array), partial(load_npy, array), _FRAMES_FIRST)


def _read_webdataset(root: Path) -> Iterator[Exported]:
    for path in sorted(root.glob("*.tar")):
        try:
            # "r:" is an uncompressed tar: a member is never larger than the file. Nothing is unpacked to disk.
            with tarfile.open(path, "r:") as tar:
                yield from _read_tar(tar, path)
        except tarfile.TarError as error:
            raise StoreError(f"{path}: not a readable tar ({error}); export the dataset again") from None


def _read_tar(tar: tarfile.TarFile, path: Path) -> Iterator[Exported]:
    waiting: dict[str, dict[str, bytes]] = {}
    for member in tar:
        file = tar.extractfile(member)
        key, _, suffix = member.name.rpartition(".")
        if file is None or suffix not in ("npy", "json"):
            continue
        pair = waiting.setdefault(key, {})
        pair[suffix] = file.read()
        if len(pair) == 2:
            del waiting[key]
            where = f"{path}/{key}"
            record = parse_record(_parse_json(pair["json"], where), where)
            load = partial(parse_npy, pair["npy"], where)
            yield Exported(record, where, load, _FRAMES_FIRST)


def _read_parquet(root: Path) -> Iterator[Exported]:
    for path in sorted(root.glob("clips-*.parquet")):
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=256):
                    yield from _read_batch(batch, path)
        except (pa.ArrowException, OSError, KeyError) as error:
            raise StoreError(f"{path}: not a readable Parquet file ({error}); export the dataset again") from None


def _read_batch(batch: pa.RecordBatch, path: Path) -> Iterator[Exported]:
    arrays = batch.column("array")
    rows = batch.select([name for name in batch.schema.names if name != "array"]).to_pylist()
    for index, row in enumerate(rows):
        where = f"{path}: {row.get('id')!r}"
        record = parse_record({**row, "metadata": _parse_json(row["metadata"], where)}, where)
        values = arrays[index].values.to_numpy(zero_copy_only=False)
        yield Exported(record, where, partial(_frames, values, record, where), _FRAMES_FIRST)


def _frames(values: np.ndarray[Any, Any], record: ClipRecord, where: str) -> np.ndarray[Any, Any]:
    if len(values) % record.num_frames:
        raise StoreError(f"{where}: {len(values)} values are not {record.num_frames} frames")
    return values.reshape(record.num_frames, -1)


def _read_lines(path: Path) -> Iterator[ClipRecord]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                where = f"{path}:{number}"
                yield parse_record(_parse_json(line, where), where)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror}); export the dataset again") from None


def _parse_json(text: bytes | str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{where}: not readable JSON ({error})") from None


_READERS: Mapping[ExportFormat, Callable[[Path], Iterator[Exported]]] = {
    ExportFormat.STABLE_AUDIO: _read_stable_audio,
    ExportFormat.MUSICCAPS: _read_musiccaps,
    ExportFormat.NPY: _read_npy,
    ExportFormat.WEBDATASET: _read_webdataset,
    ExportFormat.PARQUET: _read_parquet,
}
