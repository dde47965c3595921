"""The frozen plan: a row group per shard, written once, read a shard at a time."""

from dataclasses import MISSING, fields
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_maker import planned

from solfa.errors import StoreError
from solfa.store.export.clip_record import ClipRecord
from solfa.store.plan_file import (
    PLAN_SCHEMA,
    ROWS_AT_ONCE,
    iterate_plan_batches,
    iterate_plan_columns,
    list_shards,
    plan_record,
    read_shard_plan,
    write_plan_part,
)
from solfa.store.planned_clip import PlannedClip

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def tables(*shards: list[PlannedClip]) -> list[pa.Table]:
    return [pa.Table.from_pylist([clip.as_row() for clip in shard], schema=PLAN_SCHEMA) for shard in shards]


@settings(max_examples=30, deadline=None)
@given(caption=st.none() | TEXT, key=TEXT, metadata=st.dictionaries(st.text(max_size=4), JSON, max_size=4))
def test_any_clip_comes_back_from_its_row(caption: str | None, key: str, metadata: dict[str, object]) -> None:
    clip = PlannedClip(id=key, key=key, uri=key, caption=caption, metadata=metadata, start=3, stop=2**40)
    (row,) = tables([clip])[0].to_pylist()
    assert PlannedClip.from_row(row) == clip


def test_every_field_of_a_clip_has_a_column_and_a_place_in_an_exported_record() -> None:
    own = {field.name: field for field in fields(PlannedClip)}
    assert list(own) == PLAN_SCHEMA.names
    exported = ClipRecord.model_fields
    assert own.keys() <= exported.keys()
    given = {name: field.default for name, field in own.items() if field.default is not MISSING}
    assert {name: exported[name].default for name in given if name != "num_samples"} == {
        name: value for name, value in given.items() if name != "num_samples"
    }


def test_shards_run_on_from_part_to_part(tmp_path: Path) -> None:
    first = [[planned("a"), planned("b")], [planned("c")]]
    assert write_plan_part(tmp_path, 0, iter(tables(*first)))
    assert write_plan_part(tmp_path, 1, iter(tables([planned("d")])))
    shards = list_shards(tmp_path)
    assert [(shard.shard, shard.part, shard.row_group, shard.num_clips) for shard in shards] == [
        (0, 0, 0, 2),
        (1, 0, 1, 1),
        (2, 1, 0, 1),
    ]
    assert [[clip.id for clip in read_shard_plan(tmp_path, shard)] for shard in shards] == [["a", "b"], ["c"], ["d"]]
    assert list(iterate_plan_columns(tmp_path, ["id"])) == [{"id": ["a", "b"]}, {"id": ["c"]}, {"id": ["d"]}]
    record = plan_record(tmp_path, 0)
    assert (record.num_clips, record.num_shards, record.file.name) == (3, 2, "00000.parquet")


def test_rows_of_large_and_of_small_shards_come_some_at_a_time(tmp_path: Path) -> None:
    shards = [
        [planned(f"{shard}/{row}") for row in range(rows)] for shard, rows in enumerate((1, 2 * ROWS_AT_ONCE + 1))
    ]
    assert write_plan_part(tmp_path, 0, iter(tables(*shards)))
    assert write_plan_part(tmp_path, 1, iter(tables([planned("last")])))
    batches = [batch.column("id").to_pylist() for batch in iterate_plan_batches(tmp_path, ["id"])]
    assert [len(batch) for batch in batches] == [1, ROWS_AT_ONCE, ROWS_AT_ONCE, 1, 1]
    assert [key for batch in batches for key in batch] == [clip.id for shard in shards for clip in shard] + ["last"]


def test_a_part_is_written_once(tmp_path: Path) -> None:
    assert write_plan_part(tmp_path, 0, iter(tables([planned("a")])))
    before = (tmp_path / "plan" / "00000.parquet").read_bytes()
    assert not write_plan_part(tmp_path, 0, iter(tables([planned("b")])))
    assert (tmp_path / "plan" / "00000.parquet").read_bytes() == before
    assert list((tmp_path / ".tmp").iterdir()) == []


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    for part in range(3):
        write_plan_part(tmp_path, part, iter(tables([planned(str(part))])))
    (tmp_path / "plan" / "00001.parquet").unlink()
    with pytest.raises(StoreError, match=r"plan: .*0 to 1, found \[0, 2\].*missing"):
        list_shards(tmp_path)


def test_a_damaged_or_foreign_part_is_one_sentence(tmp_path: Path) -> None:
    write_plan_part(tmp_path, 0, iter(tables([planned("a")])))
    (shard,) = list_shards(tmp_path)
    path = tmp_path / "plan" / "00000.parquet"
    sound = path.read_bytes()
    path.write_bytes(sound[:20] + bytes(200) + sound[220:])
    with pytest.raises(StoreError, match=r"plan/00000\.parquet.*damaged"):
        read_shard_plan(tmp_path, shard)
    with pytest.raises(StoreError, match=r"plan/00000\.parquet.*damaged"):
        list(iterate_plan_columns(tmp_path, ["id"]))
    with pytest.raises(StoreError, match=r"plan/00000\.parquet: row group 0 cannot be read .*damaged"):
        list(iterate_plan_batches(tmp_path, ["id"]))
    path.write_bytes(b"garbage")
    with pytest.raises(StoreError, match=r"plan/00000\.parquet: .*cannot be read"):
        list_shards(tmp_path)
    pq.write_table(pa.table({"id": ["a"]}), path)
    with pytest.raises(StoreError, match=r"plan/00000\.parquet: .*columns"):
        list_shards(tmp_path)


def test_broken_metadata_is_one_sentence(tmp_path: Path) -> None:
    row = planned("a").as_row() | {"metadata": "{"}
    write_plan_part(tmp_path, 0, iter([pa.Table.from_pylist([row], schema=PLAN_SCHEMA)]))
    with pytest.raises(StoreError, match=r"row group 0 .*broken row"):
        read_shard_plan(tmp_path, list_shards(tmp_path)[0])
