"""Writing a shard: what is refused, who wins, and that the same input gives the same bytes."""

import errno
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from store_maker import (
    MADE_BY,
    SMALL,
    build,
    build_in_two_steps,
    codes_spec,
    info_of,
    latents_spec,
    make_outcomes,
    planned,
    stored,
    tree,
)

from solfa.errors import StoreError
from solfa.store import shard_writer as shard_module
from solfa.store.dataset import open_dataset
from solfa.store.gc import leftovers
from solfa.store.layout import create_info
from solfa.store.schema import ArraySpec, Commit
from solfa.store.shard_writer import Outcome, ShardWriter, array_ranges
from solfa.store.verification import verify


def write_shard(root: Path, outcomes: list[Outcome], spec: ArraySpec, made_by: dict[str, str] = MADE_BY) -> Commit:
    with ShardWriter(root, 0, spec, made_by) as writer:
        for outcome in outcomes:
            writer.add(outcome)
        return writer.commit()


def test_writing_the_same_twice_gives_the_same_bytes_everywhere(tmp_path: Path) -> None:
    first, second = (build_in_two_steps(tmp_path / name) for name in "ab")
    assert len(tree(first)) > 15
    assert tree(first) == tree(second)


def test_other_arrays_give_other_bytes(tmp_path: Path) -> None:
    changed = [*SMALL[:-1], stored(SMALL[-1].clip, np.zeros((6, 4), np.uint16))]
    assert tree(build(tmp_path / "a", SMALL)) != tree(build(tmp_path / "b", changed))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.uint16, ">u2"])
def test_codes_of_any_integer_dtype_and_memory_order_are_stored_alike(tmp_path: Path, dtype: Any) -> None:
    array = np.arange(12).reshape(3, 4)
    plain = stored(planned("a"), array.astype(np.uint16))
    strided = stored(planned("a"), np.asfortranarray(array.astype(dtype)))
    assert write_shard(tmp_path / "a", [plain], codes_spec()) == write_shard(tmp_path / "b", [strided], codes_spec())


@pytest.mark.parametrize(
    ("array", "spec", "message"),
    [
        (np.zeros((3, 5), int), codes_spec(4), "[T, 4], found [3, 5]"),
        (np.zeros(12, int), codes_spec(4), "[T, 4], found [12]"),
        (np.full((1, 4), 2048), codes_spec(4), "codes from 0 to 2047, found int64 from 2048 to 2048"),
        (np.full((1, 4), -1), codes_spec(4), "codes from 0 to 2047, found int64 from -1 to -1"),
        (np.full((1, 4), np.nan), codes_spec(4), "codes from 0 to 2047, found float64"),
        (np.zeros((1, 4), bool), codes_spec(4), "found bool"),
        (np.full((1, 4), 1e6), latents_spec(4), "encode with dtype float32"),
        (np.full((1, 4), np.nan), latents_spec(4, "float32"), "found NaN or infinity"),
        (np.full((1, 4), -np.inf), latents_spec(4), "found NaN or infinity"),
    ],
)
def test_an_array_that_does_not_fit_is_refused_by_name(
    tmp_path: Path, array: np.ndarray[Any, Any], spec: ArraySpec, message: str
) -> None:
    with ShardWriter(tmp_path, 0, spec, {}) as writer, pytest.raises(StoreError, match=re.escape(message)) as fault:
        writer.add(stored(planned("the/clip"), array))
    assert str(fault.value).startswith("the/clip: ")


def test_a_writer_that_is_given_up_leaves_nothing(tmp_path: Path) -> None:
    with ShardWriter(tmp_path, 0, codes_spec(), {}) as writer:
        writer.add(SMALL[0])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_record_batches_are_cut_before_arrow_runs_out_of_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_module, "MAX_ELEMENTS", 40)
    commit = write_shard(tmp_path, make_outcomes(codes_spec(), [5, 5, 5, 10, 1]), codes_spec())
    with pa.memory_map(str(tmp_path / "data" / commit.data.name)) as source:
        reader = pa.ipc.open_file(source)
        rows = [reader.get_batch(index).num_rows for index in range(reader.num_record_batches)]
    assert rows == [2, 1, 1, 1]
    with (
        ShardWriter(tmp_path, 1, codes_spec(), {}) as writer,
        pytest.raises(StoreError, match=r"44 values .*segment_seconds"),
    ):
        writer.add(stored(planned("long"), np.zeros((11, 4), int)))


def test_array_ranges_are_where_the_bytes_are(tmp_path: Path) -> None:
    spec = codes_spec()
    outcomes = make_outcomes(spec, [3, 0, 2])
    path = tmp_path / "data" / write_shard(tmp_path, outcomes, spec).data.name
    content = path.read_bytes()
    found = [content[offset : offset + length] for offset, length in array_ranges(path, spec)]
    assert found == [np.asarray(outcome.array).tobytes() for outcome in outcomes]


@pytest.mark.parametrize("hard_links", [True, False])
def test_of_two_writers_of_one_shard_the_first_commit_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard_links: bool
) -> None:
    clean = build(tmp_path / "clean", SMALL)
    if not hard_links:
        refuse_hard_links(monkeypatch)
    root, spec = tmp_path / "d", codes_spec()
    create_info(root, info_of(spec))
    with ShardWriter(root, 0, spec, MADE_BY) as first, ShardWriter(root, 0, spec, MADE_BY) as second:
        for outcome in SMALL[:3]:
            second.add(outcome)
            first.add(outcome)
        assert first.commit() == second.commit()
    build(root, SMALL)
    assert tree(root) == tree(clean)


@pytest.mark.parametrize("hard_links", [True, False])
def test_a_late_writer_with_other_bytes_changes_nothing_that_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard_links: bool
) -> None:
    root = build(tmp_path / "d", SMALL)
    before = tree(root)
    if not hard_links:
        refuse_hard_links(monkeypatch)
    with ShardWriter(root, 0, codes_spec(), {"solfa": "another version"}) as late:
        for outcome in SMALL[:3]:
            late.add(stored(outcome.clip, np.ones((1, 4), int)))
        assert late.commit().made_by == MADE_BY
    after = tree(root)
    assert {name: after[name] for name in before} == before
    orphans = set(leftovers(root))
    assert set(after) - set(before) == orphans
    assert verify(root).problems == []
    assert np.array_equal(open_dataset(root)[0].array, np.asarray(SMALL[0].array))


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_gives_the_same_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    clean = build_in_two_steps(tmp_path / "clean")
    refuse_hard_links(monkeypatch, code)
    assert tree(build_in_two_steps(tmp_path / "d"), temporary=True) == tree(clean, temporary=True)


def refuse_hard_links(monkeypatch: pytest.MonkeyPatch, code: int = errno.EPERM) -> None:
    def refuse(source: Any, target: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
