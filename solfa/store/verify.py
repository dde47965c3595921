"""Prove that a dataset is what it claims to be: every file against its hash, every clip against the plan.

Each check yields `Problem`s instead of raising, so that one run lists everything that is wrong.
"""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from solfa.errors import StoreError
from solfa.files.digest import file_sha256
from solfa.store.gc import leftovers
from solfa.store.layout import (
    commit_path,
    committed_shards,
    manifest_path,
    manifests,
    read_commit,
    read_info,
    read_manifest,
)
from solfa.store.plan_file import ShardOfPlan, iterate_plan_columns, list_shards, plan_record, read_shard_plan
from solfa.store.schema import META_SCHEMA, ArraySpec, Commit, FileRecord, data_schema
from solfa.store.shard import array_ranges


class Problem(NamedTuple):
    """One thing that is wrong, and the file it is wrong in."""

    path: str
    message: str


class Verification(NamedTuple):
    """The result of verifying a dataset."""

    num_shards: int
    num_clips: int
    num_bytes: int
    problems: list[Problem]
    leftovers: list[str]
    """Harmless files of killed runs, which `solfa gc` removes."""


def verify(root: Path, on_shard: Callable[[int, int], None] = lambda done, total: None) -> Verification:
    """Check everything; `on_shard(done, total)` is told after each shard."""
    info = read_info(root)
    planned = {shard.shard: shard for shard in list_shards(root)}
    problems = list(_check_plan(root))
    commits: dict[int, Commit] = {}
    numbers = committed_shards(root)
    for done, number in enumerate(numbers, 1):
        try:
            commits[number] = read_commit(root, number)
        except StoreError as error:
            problems.append(Problem(f"commit/{number:05d}.json", str(error)))
        else:
            problems += _check_shard(root, commits[number], planned.get(number), info.array)
        on_shard(done, len(numbers))
    missing = sorted(set(planned) - set(numbers))
    if missing:
        found = f"{len(missing)} of {len(planned)} shards are not committed (first: {missing[0]:05d})"
        problems.append(Problem("commit", f"unfinished: {found}; run the same `solfa encode` again"))
    problems += _check_manifests(root, commits, info.fingerprint)
    problems += _check_foreign_files(root)
    return Verification(
        num_shards=len(commits),
        num_clips=sum(commit.num_clips for commit in commits.values()),
        num_bytes=sum(commit.data.size_bytes + commit.meta.size_bytes for commit in commits.values()),
        problems=problems,
        leftovers=[str(path.relative_to(root)) for path in leftovers(root)] if len(commits) == len(numbers) else [],
    )


def _check_plan(root: Path) -> Iterator[Problem]:
    seen: set[str] = set()
    for columns in iterate_plan_columns(root, ["id"]):
        for clip_id in columns["id"]:
            if clip_id in seen:
                yield Problem("plan", f"clip {clip_id!r} is planned twice")
            seen.add(clip_id)


def _check_file(root: Path, folder: str, record: FileRecord) -> Iterator[Problem]:
    path, name = root / folder / record.name, f"{folder}/{record.name}"
    if not path.is_file():
        yield Problem(name, "missing, though it is committed")
    elif path.stat().st_size != record.size_bytes:
        yield Problem(name, f"expected {record.size_bytes} bytes, found {path.stat().st_size}")
    elif (found := file_sha256(path)) != record.sha256:
        yield Problem(name, f"damaged: expected sha256 {record.sha256[:16]}…, found {found[:16]}…")


def _check_shard(root: Path, commit: Commit, planned: ShardOfPlan | None, spec: ArraySpec) -> list[Problem]:
    damaged = [*_check_file(root, "data", commit.data), *_check_file(root, "meta", commit.meta)]
    if planned is None:
        damaged.append(Problem(f"commit/{commit.shard:05d}.json", "committed, but no part of the plan has this shard"))
    if damaged or planned is None:
        return damaged
    try:
        meta = pq.read_table(root / "meta" / commit.meta.name, schema=META_SCHEMA, partitioning=None)
        return [*_check_rows(root, commit, planned, meta), *_check_arrays(root, commit, meta, spec)]
    except (pa.ArrowException, OSError, StoreError) as error:
        return [Problem(f"meta/{commit.meta.name}", f"cannot be read: {error}")]


def _check_rows(root: Path, commit: Commit, planned: ShardOfPlan, meta: pa.Table) -> Iterator[Problem]:
    name = f"meta/{commit.meta.name}"
    expected = [clip.id for clip in read_shard_plan(root, planned)]
    found = meta.column("id").to_pylist()
    if found != expected:
        difference = sorted(set(expected) ^ set(found))
        what = f"clips differ from the plan: {difference[:3]}" if difference else "clips are not in plan order"
        yield Problem(name, what)
    stored = meta.column("status").to_pylist().count("ok")
    if (stored, len(found) - stored) != (commit.num_clips, commit.num_failed):
        yield Problem(name, f"{stored} stored clips of {len(found)}, the commit says {commit.num_clips}")


def _check_arrays(root: Path, commit: Commit, meta: pa.Table, spec: ArraySpec) -> Iterator[Problem]:
    name = f"data/{commit.data.name}"
    path = root / "data" / commit.data.name
    rows = [row for row in meta.to_pylist() if row["status"] == "ok"]
    if array_ranges(path, spec) != [(row["byte_offset"], row["byte_length"]) for row in rows]:
        yield Problem(name, "the byte ranges in meta are not where the arrays are")
        return
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        if not reader.schema.equals(data_schema(spec), check_metadata=True):
            yield Problem(name, "its columns are not those of this dataset")
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
    values, offsets = column.values.to_numpy(), column.offsets.to_numpy()
    for row, (clip_id, num_frames) in enumerate(zip(ids, frames, strict=True)):
        yield clip_id, num_frames, values[offsets[row] : offsets[row + 1]]


def _check_clip(found: tuple[str, int, np.ndarray[Any, Any]], row: dict[str, Any], spec: ArraySpec) -> Iterator[str]:
    clip_id, num_frames, values = found
    if clip_id != row["id"]:
        yield f"the data file has {clip_id!r} here"
    if not num_frames == row["num_frames"] == len(values) / spec.width:
        yield f"{len(values)} values are not {row['num_frames']} frames of {spec.width}"
    if zlib.crc32(values.tobytes()) != row["checksum"]:
        yield "its checksum does not fit"
    if spec.codebook_size is not None and values.size and int(values.max()) >= spec.codebook_size:
        yield f"holds code {int(values.max())}, the codebook has {spec.codebook_size} entries"


def _check_manifests(root: Path, commits: dict[int, Commit], fingerprint: str) -> Iterator[Problem]:
    for number in manifests(root):
        name = str(manifest_path(root, number).relative_to(root))
        try:
            manifest = read_manifest(root, number)
        except StoreError as error:
            yield Problem(name, str(error))
            continue
        if manifest.fingerprint != fingerprint or manifest.number != number:
            yield Problem(name, "belongs to another dataset or was renamed")
        for part, record in enumerate(manifest.plans):
            try:
                intact = plan_record(root, part) == record
            except StoreError as error:
                yield Problem(f"plan/{part:05d}.parquet", str(error))
            else:
                if not intact:
                    yield Problem(f"plan/{part:05d}.parquet", f"is not the plan that {name} pins")
        for commit in manifest.commits:
            if commits.get(commit.shard) != commit:
                path = str(commit_path(root, commit.shard).relative_to(root))
                yield Problem(path, f"missing or not the commit that {name} pins")


_SUFFIXES = {"plan": ".parquet", "data": ".arrow", "meta": ".parquet", "commit": ".json", "manifest": ".json"}


def _check_foreign_files(root: Path) -> Iterator[Problem]:
    for folder, suffix in _SUFFIXES.items():
        for path in sorted((root / folder).glob("*")):
            if path.suffix != suffix or not path.name[:5].isdigit() or not path.is_file():
                yield Problem(f"{folder}/{path.name}", "is not a file that Solfa wrote; remove it")
