"""A dataset is readable without Solfa: by pyarrow, polars, pandas and Hugging Face datasets."""

import json
from pathlib import Path

import numpy as np
import pytest
from store_maker import SMALL, build, latents_spec, make_outcomes

KEPT = [outcome for outcome in SMALL if outcome.array is not None]
EXPECTED = {outcome.clip.id: outcome.array.reshape(-1).tolist() for outcome in KEPT if outcome.array is not None}


def data_files(root: Path) -> list[str]:
    return [str(path) for path in sorted((root / "data").iterdir())]


def meta_files(root: Path) -> list[str]:
    return [str(path) for path in sorted((root / "meta").iterdir())]


def test_pyarrow_reads_arrays_and_meta(pristine: Path) -> None:
    import pyarrow as pa
    import pyarrow.dataset as pads

    found = {}
    for path in data_files(pristine):
        with pa.memory_map(path) as source:
            table = pa.ipc.open_file(source).read_all()
        table.validate(full=True)
        found |= dict(zip(table["id"].to_pylist(), table["array"].to_pylist(), strict=True))
    assert found == EXPECTED
    meta = pads.dataset(meta_files(pristine)).to_table()
    assert meta["id"].to_pylist() == [outcome.clip.id for outcome in SMALL]
    assert meta["status"].to_pylist().count("failed") == 1


def test_the_byte_ranges_in_meta_read_the_arrays_without_arrow(pristine: Path) -> None:
    import pandas as pd

    for data, meta in zip(data_files(pristine), meta_files(pristine), strict=True):
        content = Path(data).read_bytes()
        rows = pd.read_parquet(meta).query("status == 'ok'")
        for row in rows.itertuples():
            part = content[int(row.byte_offset) : int(row.byte_offset + row.byte_length)]
            assert np.frombuffer(part, "<u2").tolist() == EXPECTED[row.id]


def test_polars_reads_arrays_and_meta(pristine: Path) -> None:
    import polars as pl

    frame = pl.concat([pl.read_ipc(path) for path in data_files(pristine)])
    assert dict(zip(frame["id"], frame["array"].to_list(), strict=True)) == EXPECTED
    meta = pl.read_parquet(meta_files(pristine))
    assert meta.filter(pl.col("status") == "failed")["error"].to_list() == ["the file is empty"]
    assert meta["metadata"].str.json_path_match("$.take").to_list() == [str(index) for index in range(9)]


def test_pandas_reads_meta(pristine: Path) -> None:
    import pandas as pd

    meta = pd.concat([pd.read_parquet(path) for path in meta_files(pristine)], ignore_index=True)
    assert meta["caption"].tolist() == [f"take {index}" for index in range(9)]
    assert [json.loads(text) for text in meta["metadata"]] == [{"take": index} for index in range(9)]


@pytest.mark.parametrize("dtype", ["uint16", "float16"])
def test_hugging_face_datasets_loads_the_arrow_files(tmp_path: Path, pristine: Path, dtype: str) -> None:
    datasets = pytest.importorskip("datasets")
    if dtype == "float16":
        spec = latents_spec(3)
        outcomes = make_outcomes(spec, [2, 0, 5])
        root = build(tmp_path / "latents", outcomes, spec)
        expected = {outcome.clip.id: np.asarray(outcome.array).reshape(-1).tolist() for outcome in outcomes}
    else:
        root, expected = pristine, EXPECTED
    cache = str(tmp_path / "cache")
    loaded = datasets.load_dataset("arrow", data_files=data_files(root), split="train", cache_dir=cache)
    assert {row["id"]: row["array"] for row in loaded} == expected
    meta = datasets.load_dataset("parquet", data_files=meta_files(root), split="train", cache_dir=cache)
    assert set(expected) <= set(meta["id"])
