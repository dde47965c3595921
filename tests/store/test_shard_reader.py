"""A hostile meta file is refused with a sentence; nothing outside the data file is ever read."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solfa.errors import StoreError
from solfa.store.dataset import open_dataset
from solfa.store.layout import read_info
from solfa.store.schema import Commit
from solfa.store.shard_reader import ShardReader


def reader_with(root: Path, columns: dict[str, pa.Array], drop: str | None = None) -> ShardReader:
    """Read shard 2 of the dataset through a meta file whose columns were replaced."""
    commit = json.loads((root / "commit" / "00002.json").read_bytes())
    path = root / "meta" / commit["meta"]["name"]
    table = pq.read_table(path)
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, values)
    if drop is not None:
        table = table.drop_columns([drop])
    name = "99999-0123456789abcdef.parquet"
    pq.write_table(table, path.with_name(name))
    commit["meta"] |= {"name": name, "size_bytes": path.with_name(name).stat().st_size}
    return ShardReader(root, Commit(**commit), read_info(root).array)


HOSTILE = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-64, 4096), st.sampled_from([2**62, 2**63 - 2]))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(offset=HOSTILE, length=HOSTILE, frames=HOSTILE)
def test_any_byte_range_is_inside_the_file_or_refused(pristine: Path, offset: int, length: int, frames: int) -> None:
    columns = {
        "byte_offset": pa.array([offset] * 3, pa.int64()),
        "byte_length": pa.array([length] * 3, pa.int64()),
        "num_frames": pa.array([frames] * 3, pa.int64()),
    }
    reader = reader_with(pristine, columns)
    size = (pristine / "data" / reader._commit.data.name).stat().st_size
    try:
        array = reader.array(0)
    except StoreError as error:
        assert "byte ranges" in str(error)
    else:
        assert 0 <= offset <= offset + length <= size
        assert array.nbytes == length == frames * 8


@pytest.fixture(autouse=True)
def clean_up(pristine: Path) -> Any:
    yield
    for path in (pristine / "meta").glob("99999-*"):
        path.unlink()


@pytest.mark.parametrize(
    ("offset", "num_frames"),
    [(2**62, 2**60), (2**63 - 8, 4), (-8, 1), (3, 1), (10**6, 1), (0, 10**6)],
    ids=["the sum wraps round", "almost wraps", "negative", "misaligned", "behind the end", "too long"],
)
def test_a_byte_range_outside_the_file_is_refused(pristine: Path, offset: int, num_frames: int) -> None:
    length = min(num_frames * 8, 2**62)
    columns = {"byte_offset": [offset] * 3, "byte_length": [length] * 3, "num_frames": [num_frames] * 3}
    reader = reader_with(pristine, {name: pa.array(values, pa.int64()) for name, values in columns.items()})
    with pytest.raises(StoreError, match=r"byte ranges .*`solfa verify`"):
        reader.clip(0)


def test_missing_ranges_columns_types_and_rows_are_refused(pristine: Path) -> None:
    nulls = reader_with(pristine, {"byte_offset": pa.array([None] * 3, pa.int64())})
    with pytest.raises(StoreError, match="byte ranges"):
        nulls.clip(0)
    with pytest.raises(StoreError, match=r"columns .*`solfa verify`"):
        reader_with(pristine, {}, drop="byte_offset").clip(0)
    with pytest.raises(StoreError, match=r"columns .*`solfa verify`"):
        reader_with(pristine, {"byte_offset": pa.array(["a", "b", "c"])}).clip(0)
    short = reader_with(pristine, {})
    short._commit = short._commit.model_copy(update={"num_clips": 4})
    with pytest.raises(StoreError, match="4 clips, found 3"):
        _ = short.num_frames


@pytest.mark.parametrize("folder", ["data", "meta"])
def test_a_missing_or_truncated_file_is_a_sentence(small: Path, folder: str) -> None:
    (path,) = (small / folder).glob("00000-*")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(StoreError, match=r"\d+ bytes, found \d+; .*`solfa verify`"):
        open_dataset(small)[0]
    path.unlink()
    with pytest.raises(StoreError, match=r"missing.*committed"):
        open_dataset(small)[0]


def test_a_meta_file_of_garbage_is_a_sentence(small: Path) -> None:
    (path,) = (small / "meta").glob("00000-*")
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(StoreError, match=r"cannot be read.*`solfa verify`"):
        open_dataset(small)[0]
