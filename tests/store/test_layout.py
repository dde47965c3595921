"""Damaged, foreign and newer records are refused with a sentence that names the file."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from solfa.errors import ConfigError, StoreError
from solfa.files.digest import canonical_json
from solfa.store.dataset import open_dataset
from solfa.store.layout import (
    committed_shards,
    expect_new_dataset,
    manifests,
    plan_parts,
    read_commit,
    read_info,
    read_manifest,
)
from solfa.store.verification import verify

RECORDS = ["dataset.json", "commit/00000.json", "manifest/000001.json"]


def read_record(root: Path, name: str) -> None:
    readers = {"dataset": read_info, "commit": lambda r: read_commit(r, 0), "manifest": lambda r: read_manifest(r, 1)}
    readers[name.removesuffix(".json").split("/")[0]](root)


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"[" * 100_000,
        b'{"shard": ' + b"9" * 5000 + b"}",
        b'{"fingerprint": NaN}',
        b'{"made_by": {"a": "\\ud800"}}',
    ],
    ids=lambda content: repr(content[:16]),
)
def test_garbage_is_one_sentence_that_names_the_file(small: Path, name: str, content: bytes) -> None:
    (small / name).write_bytes(content)
    with pytest.raises(StoreError) as fault:
        read_record(small, name)
    assert name in str(fault.value)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("name", RECORDS[1:])
def test_a_folder_in_the_place_of_a_record_is_one_sentence(small: Path, name: str) -> None:
    (small / name).unlink()
    (small / name).mkdir()
    with pytest.raises(StoreError, match=r"\.json: .*cannot be read"):
        read_record(small, name)
    assert any(problem.path == name for problem in verify(small).problems)


@pytest.mark.parametrize("version", [2, 99, "next", None, [1]])
def test_a_newer_format_is_refused_with_what_to_do(small: Path, version: Any) -> None:
    path = small / "dataset.json"
    path.write_bytes(canonical_json(json.loads(path.read_bytes()) | {"format_version": version, "news": True}))
    with pytest.raises(StoreError, match=r"dataset\.json.*version") as fault:
        open_dataset(small)
    if version == 2:
        assert "version 2" in str(fault.value) and "version 1" in str(fault.value) and "update" in str(fault.value)


EVIL = [
    "../../etc/passwd",
    "..",
    "/etc/passwd",
    "00000-0123456789abcdef.arrow/../../x",
    "a/00000-0123456789abcdef.arrow",
    "00000-0123456789abcdef.arrow\n",
    "00000-0123456789abcdef.arrow\x00",
    "../00000-0123456789abcdef.arrow",
    "٠٠٠٠٠-0123456789abcdef.arrow",
    "",
]


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("field", ["data", "meta"])
def test_a_file_name_that_leads_elsewhere_is_refused(small: Path, evil: str, field: str) -> None:
    commit = json.loads((small / "commit" / "00000.json").read_bytes())
    commit[field]["name"] = evil
    (small / "commit" / "00000.json").write_bytes(canonical_json(commit))
    with pytest.raises(StoreError, match=rf"commit/00000\.json: {field}\.name: "):
        open_dataset(small, partial=True)
    manifest = json.loads((small / "manifest" / "000001.json").read_bytes())
    manifest["commits"][0] = commit
    (small / "manifest" / "000001.json").write_bytes(canonical_json(manifest))
    with pytest.raises(StoreError, match=rf"manifest/000001\.json: commits\.0\.{field}\.name"):
        open_dataset(small)
    assert any(problem.path == "commit/00000.json" for problem in verify(small).problems)


@pytest.mark.parametrize("evil", ["../00000.parquet", "00000.parquet/..", "x.parquet"])
def test_a_plan_name_that_leads_elsewhere_is_refused(small: Path, evil: str) -> None:
    path = small / "manifest" / "000001.json"
    manifest = json.loads(path.read_bytes())
    manifest["plans"][0]["file"]["name"] = evil
    path.write_bytes(canonical_json(manifest))
    with pytest.raises(StoreError, match=r"plans\.0\.file\.name"):
        open_dataset(small)


def test_a_dataset_that_another_process_begins_between_two_looks_is_not_foreign(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dest, iterdir = tmp_path / "new.solfa", Path.iterdir
    dest.mkdir()

    def listing(path: Path) -> Any:
        monkeypatch.setattr(Path, "iterdir", iterdir)
        shutil.copytree(small, dest, dirs_exist_ok=True)
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", listing)
    expect_new_dataset(dest)
    (dest / "dataset.json").unlink()
    with pytest.raises(ConfigError, match="empty folder"):
        expect_new_dataset(dest)


def test_a_folder_that_is_no_dataset_says_what_was_found(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"found a folder without dataset\.json"):
        open_dataset(tmp_path)
    with pytest.raises(StoreError, match=r"found no such folder; .*`solfa encode SOURCE"):
        open_dataset(tmp_path / "nowhere")


def test_only_the_names_that_are_written_count(small: Path) -> None:
    for name in ("commit/7.json", "commit/000008.json", "commit/٠٠٠٠٩.json", "manifest/00002.json", "plan/1.parquet"):
        (small / name).write_text("{}")
    (small / "commit" / "123456.json").write_text("{}")
    assert committed_shards(small) == [0, 1, 2, 123_456]
    assert manifests(small) == [1]
    assert plan_parts(small) == [0]


def test_a_renamed_commit_is_refused(small: Path) -> None:
    (small / "commit" / "00000.json").rename(small / "commit" / "00005.json")
    with pytest.raises(StoreError, match=r"commit/.*commit of shard 0; .*renamed"):
        read_commit(small, 5)
    with pytest.raises(StoreError, match=r"commit/.*missing"):
        read_commit(small, 0)


@pytest.mark.parametrize("name", ["commit/00000.json", "manifest/000001.json", "plan/00000.parquet"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(small: Path, name: str) -> None:
    (small / name).unlink()
    os.mkfifo(small / name)
    assert any(name in problem.path + problem.message for problem in verify(small).problems)
