"""Verification finds every damage and names the file."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from store_maker import SMALL, build, codes_spec, flip_bit, info_of, make_outcomes, stored

from solfa.errors import StoreError
from solfa.files.digest import canonical_json, file_sha256
from solfa.store.array_dataset import append_arrays
from solfa.store.dataset import open_dataset
from solfa.store.layout import content_name
from solfa.store.verification import verify


def problems(root: Path) -> dict[str, str]:
    return {problem.path: problem.message for problem in verify(root).problems}


def only_file(root: Path, folder: str, shard: int = 1) -> Path:
    (path,) = (root / folder).glob(f"{shard:05d}*")
    return path


def edit_json(path: Path, **values: Any) -> None:
    path.write_bytes(canonical_json(json.loads(path.read_bytes()) | values))


def test_a_sound_dataset_has_no_problem_and_is_counted(small: Path) -> None:
    seen: list[tuple[int, int]] = []
    found = verify(small, lambda done, total: seen.append((done, total)))
    assert (found.problems, found.leftovers) == ([], [])
    assert (found.num_shards, found.num_clips) == (3, 8)
    assert seen == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("folder", ["data", "meta"])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.99])
def test_a_flipped_bit_in_data_or_meta_is_found(small: Path, folder: str, place: float) -> None:
    path = only_file(small, folder)
    flip_bit(path, int(path.stat().st_size * place), bit=3)
    found = problems(small)
    assert list(found) == [f"{folder}/{path.name}"]
    assert "damaged: expected sha256" in found[f"{folder}/{path.name}"]


@pytest.mark.parametrize("place", [0.0, 0.2, 0.4, 0.6, 0.8, 0.99])
def test_a_flipped_bit_in_the_plan_is_found_and_named(small: Path, place: float) -> None:
    path = small / "plan" / "00000.parquet"
    flip_bit(path, int(path.stat().st_size * place), bit=3)
    found = problems(small)
    assert "damaged: expected sha256" in found["plan/00000.parquet"]
    assert all(name.startswith("plan") or "plan/00000.parquet" in text for name, text in found.items())


@pytest.mark.parametrize("name", ["commit/00001.json", "manifest/000001.json"])
def test_a_flipped_bit_anywhere_in_a_commit_or_manifest_is_found(small: Path, name: str) -> None:
    path = small / name
    sound = path.read_bytes()
    for position in range(0, len(sound), 29):
        flip_bit(path, position, bit=position % 7)
        found = problems(small)
        assert found, f"bit {position % 7} of byte {position}: {path.read_bytes()[position - 20 : position + 20]!r}"
        assert any(name in (problem + message) for problem, message in found.items())
        path.write_bytes(sound)
    assert problems(small) == {}


def test_a_flipped_bit_in_dataset_json_is_one_sentence(small: Path) -> None:
    path = small / "dataset.json"
    sound = path.read_bytes()
    begin = sound.index(b'"codec"') + 20  # what the codec is called is text; everything after it is hashed
    for position in range(begin, len(sound), 7):
        flip_bit(path, position, bit=1)
        with pytest.raises(StoreError, match=r"dataset\.json"):
            verify(small)
        path.write_bytes(sound)


@pytest.mark.parametrize("folder", ["data", "meta"])
def test_truncated_and_missing_files_are_found(small: Path, folder: str) -> None:
    path = only_file(small, folder)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    (message,) = problems(small).values()
    assert list(problems(small)) == [f"{folder}/{path.name}"] and f"{size} bytes, found {size - 1}" in message
    path.unlink()
    assert "missing" in problems(small)[f"{folder}/{path.name}"]


def test_a_missing_commit_plan_or_manifest_is_found(small: Path) -> None:
    (small / "commit" / "00002.json").rename(small / "kept")
    found = problems(small)
    assert "missing" in found["commit/00002.json"] and "manifest/000001.json" in found["commit/00002.json"]
    assert "unfinished: 1 of 3 shards are not committed (first: 00002)" in found["commit"]
    (small / "kept").rename(small / "commit" / "00002.json")
    (small / "plan" / "00000.parquet").rename(small / "kept")
    assert "missing" in problems(small)["plan/00000.parquet"]
    (small / "kept").rename(small / "plan" / "00000.parquet")
    (small / "manifest" / "000001.json").unlink()
    assert "no manifest pins all 3 planned shards" in problems(small)["manifest"]


def test_a_truncated_plan_is_a_problem_and_not_an_exception(small: Path) -> None:
    path = small / "plan" / "00000.parquet"
    path.write_bytes(path.read_bytes()[:-30])
    assert set(problems(small)) == {"plan", "plan/00000.parquet"}


def test_a_lost_manifest_between_others_is_found(small: Path) -> None:
    for name in "ab":
        append_arrays(small, info_of(codes_spec()), make_outcomes(codes_spec(), [1], prefix=name), {})
    (small / "manifest" / "000002.json").unlink()
    assert list(problems(small)) == ["manifest/000002.json"] and "missing" in problems(small)["manifest/000002.json"]


def test_an_append_that_no_manifest_pins_yet_is_unfinished(small: Path) -> None:
    append_arrays(small, info_of(codes_spec()), make_outcomes(codes_spec(), [1], prefix="more"), {})
    (small / "manifest" / "000002.json").unlink()
    assert "no manifest pins all 4 planned shards" in problems(small)["manifest"]


def test_a_dataset_that_was_never_planned_is_unfinished(small: Path) -> None:
    for folder in ("plan", "commit", "manifest", "data", "meta"):
        shutil.rmtree(small / folder)
    assert list(problems(small)) == ["manifest"]


@pytest.mark.parametrize(
    "name",
    [
        "data/notes.txt",
        "data/00000.arrow",
        "meta/00000-zz.parquet",
        "commit/1.json",
        "commit/00000x.json",
        "commit/00001.json.bak",
        "manifest/1.json",
        "plan/copy of 00000.parquet",
        "plan/\u0660\u0660\u0660\u0660\u0660.parquet",
    ],
)
def test_an_extra_file_is_found(small: Path, name: str) -> None:
    (small / name).write_text("hello")
    assert list(problems(small)) == [name] and "remove it" in problems(small)[name]


def test_extra_content_and_temporary_files_are_leftovers(small: Path) -> None:
    extra = ["data/00007-0123456789abcdef.arrow", "meta/00001-0123456789abcdef.parquet", ".tmp/x"]
    (small / ".tmp").mkdir(exist_ok=True)
    for name in extra:
        (small / name).write_text("")
    found = verify(small)
    assert found.problems == []
    assert sorted(found.leftovers) == sorted(extra)


def test_a_commit_of_another_shard_or_dataset_is_found(small: Path, tmp_path: Path) -> None:
    commit = small / "commit" / "00001.json"
    sound = commit.read_bytes()
    commit.write_bytes((small / "commit" / "00002.json").read_bytes())
    assert "commit of shard 2; the file was renamed" in problems(small)["commit/00001.json"]
    other = build(tmp_path / "other", make_outcomes(codes_spec(), [3] * 9, prefix="other"))
    for folder in ("data", "meta"):
        path = only_file(other, folder)
        shutil.copy(path, small / folder / path.name)
    commit.write_bytes((other / "commit" / "00001.json").read_bytes())
    found = problems(small)
    assert "is not the commit that manifest/000001.json pins" in found["commit/00001.json"]
    assert "clips differ from the plan: ['clip/003', " in found[f"meta/{only_file(other, 'meta').name}"]
    commit.write_bytes(sound)
    assert problems(small) == {}


def test_a_commit_beyond_the_plan_is_found(small: Path) -> None:
    commit = small / "commit" / "00003.json"
    commit.write_bytes((small / "commit" / "00001.json").read_bytes())
    edit_json(commit, shard=3)
    assert "not in the plan" in problems(small)["commit/00003.json"]


def test_a_clip_that_is_planned_twice_is_found(tmp_path: Path) -> None:
    twice = [SMALL[0], SMALL[0]]
    assert problems(build(tmp_path / "d", twice))["plan"].startswith("clip 'clip/000' ")


@pytest.mark.parametrize("count", ["num_clips", "num_failed", "num_frames", "num_samples"])
def test_counts_of_a_commit_are_checked_before_a_manifest_pins_them(small: Path, count: str) -> None:
    (small / "manifest" / "000001.json").unlink()
    path = small / "commit" / "00001.json"
    edit_json(path, **{count: json.loads(path.read_bytes())[count] + 1})
    assert f"says {count} " in problems(small)["commit/00001.json"]


def forge(root: Path, folder: str, content: Path) -> str:
    """Put a file in the place of shard 1's and make the commit and the manifest agree with it."""
    sha256 = file_sha256(content)
    name = content_name(1, sha256, content.suffix)
    record = {"name": name, "size_bytes": content.stat().st_size, "sha256": sha256}
    only_file(root, folder).unlink()
    content.rename(root / folder / name)
    edit_json(root / "commit" / "00001.json", **{folder: record})
    manifest = root / "manifest" / "000001.json"
    commits = json.loads(manifest.read_bytes())["commits"]
    edit_json(manifest, commits=[commits[0], json.loads((root / "commit" / "00001.json").read_bytes()), commits[2]])
    return f"{folder}/{name}"


def forge_meta(root: Path, tmp_path: Path, **columns: list[Any]) -> str:
    table = pq.read_table(only_file(root, "meta"))
    for name, values in columns.items():
        index = table.column_names.index(name)
        table = table.set_column(index, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    pq.write_table(table, tmp_path / "forged.parquet")
    return forge(root, "meta", tmp_path / "forged.parquet")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"checksum": [1, None, 3]}, "checksum"),
        ({"byte_offset": [0, None, 0]}, "byte ranges"),
        ({"id": ["clip/004", "clip/003", "clip/005"]}, "plan order"),
        ({"num_frames": [8, 0, 1]}, "8 frames of 4"),
        ({"metadata": ["{}", "[" * 100_000, "{}"]}, "JSON object"),
    ],
)
def test_a_forged_meta_with_fitting_hashes_is_found(
    small: Path, tmp_path: Path, columns: dict[str, list[Any]], message: str
) -> None:
    forge_meta(small, tmp_path, **columns)
    assert any(message in problem.message for problem in verify(small).problems)


def test_a_code_outside_the_codebook_is_found(small: Path, tmp_path: Path) -> None:
    wide = codes_spec(codebook_size=65_536)
    outcomes = [*SMALL[:3], stored(SMALL[3].clip, np.full((7, 4), 2048, np.int64)), *SMALL[4:]]
    other = build(tmp_path / "wide", outcomes, wide)
    source = pa.ipc.open_file(only_file(other, "data").read_bytes()).read_all()
    schema = pa.ipc.open_file(only_file(small, "data").read_bytes()).schema
    with pa.OSFile(str(tmp_path / "forged.arrow"), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(source.cast(schema))
    name = forge(small, "data", tmp_path / "forged.arrow")
    messages = [problem.message for problem in verify(small).problems if problem.path == name]
    assert any("'clip/003'" in message and "code 2048" in message for message in messages)


def test_data_of_another_shape_is_found(small: Path, tmp_path: Path) -> None:
    other = build(tmp_path / "narrow", make_outcomes(codes_spec(2), [1] * 9), codes_spec(2))
    shutil.copy(only_file(other, "data"), tmp_path / "forged.arrow")
    name = forge(small, "data", tmp_path / "forged.arrow")
    assert "columns" in problems(small)[name]


def test_arrow_offsets_outside_the_file_are_a_problem_and_not_a_crash(small: Path, tmp_path: Path) -> None:
    content = bytearray(only_file(small, "data").read_bytes())
    at = content.index(np.array([0, 28, 36], np.int32).tobytes())
    content[at : at + 12] = np.array([0, 2**30, 36], np.int32).tobytes()
    (tmp_path / "forged.arrow").write_bytes(content)
    name = forge(small, "data", tmp_path / "forged.arrow")
    assert name in problems(small)


def test_metadata_that_is_no_json_is_one_sentence_where_it_is_read(small: Path, tmp_path: Path) -> None:
    forge_meta(small, tmp_path, metadata=["[" * 100_000, "{}", "{}"])
    with pytest.raises(StoreError, match=r"clip/003.*JSON object"):
        _ = open_dataset(small)["clip/003"].metadata
