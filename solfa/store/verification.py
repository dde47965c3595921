"""Prove that a dataset is what it claims to be: check every file against its hash and every clip against the plan.

Each check yields `Problem`s instead of raising, so that one run lists everything that is wrong. Only an unreadable
dataset.json raises, since there is nothing to check against.
"""

import hashlib
import re
import shutil
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from solfa.errors import StoreError
from solfa.files.json_objects import parse_object
from solfa.files.stores.place import Place, read_place, store_at
from solfa.files.stores.protocol import Store
from solfa.store.column_numbers import numbers_of
from solfa.store.gc import leftovers
from solfa.store.landmark_file import LandmarkFile, landmark_key, shards_with_landmarks
from solfa.store.layout import (
    commit_key,
    committed_shards,
    manifest_key,
    manifests,
    read_commit,
    read_info,
    read_manifest,
)
from solfa.store.plan_file import ShardOfPlan, iterate_plan_columns, list_shards, plan_record, read_shard_plan
from solfa.store.schema import META_SCHEMA, ArraySpec, Commit, FileRecord, Manifest, data_schema
from solfa.store.shard_reader import ShardReader
from solfa.store.shard_writer import array_ranges


class Problem(NamedTuple):
    """One thing that is wrong, and the file it is in."""

    path: str
    message: str

    @property
    def shard(self) -> int | None:
        """The shard that the file belongs to; None if it belongs to none."""
        found = re.match(r"(?:data|meta|commit)/([0-9]{5,})[-.]", self.path)
        return int(found[1]) if found else None


class Verification(NamedTuple):
    """The result of verifying a dataset."""

    num_shards: int
    num_clips: int
    num_bytes: int
    problems: list[Problem]
    leftovers: list[str]
    """Harmless files left by killed runs, which `solfa gc` removes."""


def verify(root: str | Place, on_shard: Callable[[int, int], None] = lambda done, total: None) -> Verification:
    """Check every file, hash, length and row of a dataset; `on_shard(done, total)` is called after each shard.

    >>> from solfa.store import verify
    >>> found = verify("music.solfa")
    >>> found.num_clips, found.problems
    (7, [])
    """
    root = read_place(root)
    info = read_info(root)
    planned, problems = _read_plan(root)
    commits: dict[int, Commit] = {}
    numbers = committed_shards(root)
    for done, number in enumerate(numbers, 1):
        try:
            commits[number] = read_commit(root, number)
        except StoreError as error:
            problems.append(Problem(f"commit/{number:05d}.json", str(error)))
        else:
            problems += check_shard(root, commits[number], planned, info.array)
        on_shard(done, len(numbers))
    problems += _check_finished(root, planned or {}, numbers)
    problems += _check_manifests(root, commits, info.fingerprint)
    problems += _check_landmarks(root, planned) if planned is not None else []
    problems += _check_foreign_files(root)
    return Verification(
        num_shards=len(commits),
        num_clips=sum(commit.num_clips for commit in commits.values()),
        num_bytes=sum(commit.data.size_bytes + commit.meta.size_bytes for commit in commits.values()),
        problems=list(dict.fromkeys(problems)),
        leftovers=leftovers(root) if len(commits) == len(numbers) else [],
    )


def _read_plan(root: Place) -> tuple[dict[int, ShardOfPlan] | None, list[Problem]]:
    """List the planned shards, or None if the plan cannot be read, and what is wrong with it."""
    try:
        return {shard.shard: shard for shard in list_shards(root)}, list(_check_plan(root))
    except StoreError as error:
        return None, [Problem("plan", str(error))]


def _check_finished(root: Place, planned: Collection[int], committed: list[int]) -> Iterator[Problem]:
    missing = sorted(set(planned) - set(committed))
    if missing:
        found = f"{len(missing)} of {len(planned)} shards are not committed (first: {missing[0]:05d})"
        yield Problem("commit", f"unfinished: {found}; run the same `solfa encode` again")
        return
    try:
        pinned = max((len(read_manifest(root, number).commits) for number in manifests(root)), default=None)
    except StoreError:
        return  # checking the manifests will say what is wrong
    if pinned is None or pinned < len(planned):
        found = f"no manifest pins all {len(planned)} planned shards"
        yield Problem("manifest", f"unfinished: {found}; run the same `solfa encode` again")


def _check_plan(root: Place) -> Iterator[Problem]:
    before: dict[str, int] = {}
    failed: dict[int, frozenset[str]] = {}
    for shard, columns in enumerate(iterate_plan_columns(root, ["id"])):
        for clip_id in columns["id"]:
            earlier = before.get(clip_id)
            if earlier is not None and earlier not in failed:
                failed[earlier] = _failed_in(root, earlier)
            if earlier is not None and clip_id not in failed[earlier]:
                yield Problem("plan", f"clip {clip_id!r} is planned twice")
            before[clip_id] = shard


def _failed_in(root: Place, shard: int) -> frozenset[str]:
    """List the clips that failed in a shard, which may be planned again."""
    try:
        commit = read_commit(root, shard)
        return frozenset(clip.id for clip in ShardReader(root, commit, read_info(root).array).failures())
    except (StoreError, OSError):
        return frozenset()  # checking the shard will say what is wrong


def check_file(root: Place, folder: str, record: FileRecord) -> Iterator[Problem]:
    """Compare a file with what a record says of it."""
    key, store = f"{folder}/{record.name}", store_at(root)
    found = store.head(key)
    if found is None:
        yield Problem(key, "missing, although the dataset refers to it")
    elif found.size_bytes != record.size_bytes:
        yield Problem(key, f"expected {record.size_bytes} bytes, found {found.size_bytes}")
    elif (sha256 := _sha256(store, key)) != record.sha256:
        yield Problem(key, f"damaged: expected sha256 {record.sha256[:16]}…, found {sha256[:16]}…")


def _sha256(store: Store, key: str) -> str:
    digest = hashlib.sha256()
    for chunk in store.stream(key):
        digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _here(root: Place, commit: Commit) -> Iterator[Path]:
    """Yield a folder in which the files of a shard are; those of an object store are copied, not taken from a cache."""
    if isinstance(root, Path):
        yield root
        return
    copies = root.temporary("verify")
    try:
        for folder, name in (("data", commit.data.name), ("meta", commit.meta.name)):
            (copies / folder).mkdir(parents=True)
            with (copies / folder / name).open("wb") as file:
                file.writelines(root.stream(f"{folder}/{name}"))
        yield copies
    finally:
        shutil.rmtree(copies, ignore_errors=True)


def check_shard(root: Place, commit: Commit, planned: dict[int, ShardOfPlan] | None, spec: ArraySpec) -> list[Problem]:
    """Check the files of a shard against its commit and against the plan, if there is one."""
    try:
        with _here(root, commit) as here:
            return _check_shard(root, here, commit, planned, spec)
    except FileNotFoundError:  # of an object store, nothing could be copied
        return [*check_file(root, "data", commit.data), *check_file(root, "meta", commit.meta)]


def _check_shard(
    root: Place, here: Path, commit: Commit, planned: dict[int, ShardOfPlan] | None, spec: ArraySpec
) -> list[Problem]:
    damaged = [*check_file(here, "data", commit.data), *check_file(here, "meta", commit.meta)]
    if planned is not None and commit.shard not in planned:
        damaged.append(Problem(f"commit/{commit.shard:05d}.json", "committed, but this shard is not in the plan"))
    if damaged or planned is None:
        return damaged
    try:
        with pq.ParquetFile(here / "meta" / commit.meta.name) as file:
            meta = file.read().cast(META_SCHEMA)
        rows = [*_check_rows(root, commit, planned[commit.shard], meta), *_check_metadata(commit, meta)]
        return [*rows, *_check_counts(commit, meta), *_check_arrays(here, commit, meta, spec)]
    except (pa.ArrowException, OSError, StoreError) as error:
        return [Problem(f"meta/{commit.meta.name}", f"cannot be read ({error})")]


def _check_rows(root: Place, commit: Commit, planned: ShardOfPlan, meta: pa.Table) -> Iterator[Problem]:
    name = f"meta/{commit.meta.name}"
    try:
        expected = [clip.id for clip in read_shard_plan(root, planned)]
    except StoreError as error:
        yield Problem(f"plan/{planned.part:05d}.parquet", str(error))
        return
    found = meta.column("id").to_pylist()
    if found != expected:
        difference = sorted(set(expected) ^ set(found))
        what = f"clips differ from the plan: {difference[:3]}" if difference else "clips are not in plan order"
        yield Problem(name, what)


def _check_metadata(commit: Commit, meta: pa.Table) -> Iterator[Problem]:
    for clip_id, text in zip(meta.column("id").to_pylist(), meta.column("metadata").to_pylist(), strict=True):
        try:
            parse_object(text)
        except ValueError as error:
            yield Problem(f"meta/{commit.meta.name}", f"clip {clip_id!r}: its metadata is not a JSON object ({error})")


def _check_counts(commit: Commit, meta: pa.Table) -> Iterator[Problem]:
    stored = meta.filter(pc.field("status") == "ok")
    found = {
        "num_clips": stored.num_rows,
        "num_failed": meta.filter(pc.field("status") == "failed").num_rows,
        "num_frames": pc.sum(stored.column("num_frames")).as_py() or 0,
        "num_samples": pc.sum(stored.column("num_samples")).as_py() or 0,
    }
    for name, count in found.items():
        if count != (claimed := getattr(commit, name)):
            path = f"commit/{commit.shard:05d}.json"
            yield Problem(path, f"says {name} {claimed}, but meta/{commit.meta.name} has {count}")


def _check_arrays(here: Path, commit: Commit, meta: pa.Table, spec: ArraySpec) -> Iterator[Problem]:
    name = f"data/{commit.data.name}"
    path = here / "data" / commit.data.name
    rows = [row for row in meta.to_pylist() if row["status"] == "ok"]
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        if not reader.schema.equals(data_schema(spec), check_metadata=True):
            yield Problem(name, "its columns are not those of this dataset")
            return
        if array_ranges(path, spec) != [(row["byte_offset"], row["byte_length"]) for row in rows]:
            yield Problem(name, "the arrays are not at the byte ranges given in meta")
            return
        position = 0
        for index in range(reader.num_record_batches):
            batch = reader.get_batch(index)
            batch.validate(full=True)
            for values, row in zip(_clips(batch), rows[position : position + batch.num_rows], strict=True):
                yield from (Problem(name, f"clip {row['id']!r}: {fault}") for fault in _check_clip(values, row, spec))
            position += batch.num_rows
    if position != len(rows):
        yield Problem(name, f"{position} arrays for {len(rows)} clips")


def _clips(batch: pa.RecordBatch) -> Iterator[tuple[str, int, np.ndarray[Any, Any]]]:
    ids, frames = batch.column("id").to_pylist(), batch.column("num_frames").to_pylist()
    column = batch.column("array")
    values, offsets = numbers_of(column.values), numbers_of(column.offsets)
    for row, (clip_id, num_frames) in enumerate(zip(ids, frames, strict=True)):
        yield clip_id, num_frames, values[offsets[row] : offsets[row + 1]]


def _check_clip(found: tuple[str, int, np.ndarray[Any, Any]], row: dict[str, Any], spec: ArraySpec) -> Iterator[str]:
    clip_id, num_frames, values = found
    if clip_id != row["id"]:
        yield f"the data file has {clip_id!r} here"
    if not num_frames == row["num_frames"] == len(values) / spec.width:
        yield f"{len(values)} values are not {row['num_frames']} frames of {spec.width}"
    if zlib.crc32(values.tobytes()) != row["checksum"]:
        yield "its checksum does not match"
    if spec.codebook_size is not None and values.size and int(values.max()) >= spec.codebook_size:
        yield f"it has code {int(values.max())}, but the codebook has {spec.codebook_size} entries"


def _check_manifests(root: Place, commits: dict[int, Commit], fingerprint: str) -> Iterator[Problem]:
    numbers, committed = manifests(root), set(committed_shards(root))
    for number in sorted(set(range(1, max(numbers, default=0))) - set(numbers)):
        yield Problem(f"manifest/{number:06d}.json", "missing, although a later manifest exists")
    for number in numbers:
        name = manifest_key(number)
        try:
            manifest = read_manifest(root, number)
        except StoreError as error:
            yield Problem(name, str(error))
            continue
        if manifest.fingerprint != fingerprint or manifest.number != number:
            yield Problem(name, "belongs to another dataset or was renamed")
        yield from _check_pinned_plans(root, name, manifest)
        for commit in manifest.commits:
            key = commit_key(commit.shard)
            if commit.shard not in committed:
                yield Problem(key, f"missing, although {name} pins it")
            elif commit.shard in commits and commits[commit.shard] != commit:
                found = f"is not the commit that {name} pins: one of the two was damaged or replaced"
                yield Problem(key, found)


def _check_pinned_plans(root: Place, name: str, manifest: Manifest) -> Iterator[Problem]:
    for part, record in enumerate(manifest.plans):
        damaged = list(check_file(root, "plan", record.file))
        yield from (Problem(path, f"{message} (according to {name})") for path, message in damaged)
        try:
            if not damaged and plan_record(root, part) != record:
                yield Problem(name, f"its description of plan/{part:05d}.parquet does not match the file")
        except StoreError as error:
            yield Problem(f"plan/{part:05d}.parquet", str(error))


_NAMES = {
    "plan": re.compile(r"[0-9]{5,}\.parquet"),
    "data": re.compile(r"[0-9]{5,}-[0-9a-f]{16}\.arrow"),
    "meta": re.compile(r"[0-9]{5,}-[0-9a-f]{16}\.parquet"),
    "commit": re.compile(r"[0-9]{5,}\.json"),
    "manifest": re.compile(r"[0-9]{6,}\.json"),
    "landmarks": re.compile(r"[0-9]{5,}-v[0-9]+\.arrow"),
}


def _check_landmarks(root: Place, planned: dict[int, ShardOfPlan]) -> Iterator[Problem]:
    for shard in shards_with_landmarks(root):
        key = landmark_key(shard)
        if shard not in planned:
            yield Problem(key, "the landmarks of a shard that is not in the plan; remove it")
            continue
        try:
            ids = {clip.id for clip in read_shard_plan(root, planned[shard])}
            strange = [clip.id for clip in LandmarkFile(root, shard).clips() or () if clip.id not in ids]
        except StoreError as error:
            yield Problem(key, str(error))
        else:
            way_out = "remove the file, and `solfa fingerprint` makes it again"
            yield from (Problem(key, f"clip {name!r} is not in the plan of this shard; {way_out}") for name in strange)


def _check_foreign_files(root: Place) -> Iterator[Problem]:
    for folder, pattern in _NAMES.items():
        for name in store_at(root).names(folder):
            is_file = not isinstance(root, Path) or (root / folder / name).is_file()
            if not pattern.fullmatch(name) or not is_file:
                yield Problem(f"{folder}/{name}", "not written by Solfa; remove it")
