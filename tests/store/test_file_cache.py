"""The cache: bounded, shared, checked on arrival, and never more than a copy."""

import hashlib
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from solfa.errors import ConfigError, StoreError
from solfa.files import LocalStore
from solfa.store.file_cache import CachedFile, FileCache, Wanted, files_to_remove


def wanted(store: LocalStore, key: str) -> Wanted:
    content = store.read(key)
    sha256 = hashlib.sha256(content).hexdigest()
    return Wanted(store, key, sha256, len(content), sha256)


@pytest.fixture
def files(tmp_path: Path) -> list[Wanted]:
    store = LocalStore(tmp_path / "far")
    for number in range(4):
        store.create(f"data/{number}", bytes([number]) * 1000)
    return [wanted(store, f"data/{number}") for number in range(4)]


def names(cache: FileCache) -> set[str]:
    return {kept.name for kept in cache.kept()}


def test_what_was_used_longest_ago_goes_first(files: list[Wanted], tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "cache/objects", 2500)
    for file in files[:2]:
        path = cache.fetch(file)
        assert path is not None and path.read_bytes() == file.store.read(file.key)
    os.utime(cache.folder / files[1].name, (1, 1))
    cache.fetch(files[2])
    assert names(cache) == {files[0].name, files[2].name}


def test_with_a_plan_only_what_is_used_later_goes() -> None:
    kept = [
        CachedFile("a", 10, 0.0),
        CachedFile("b", 10, 0.0),
        CachedFile("c", 10, 0.0),
        CachedFile("mine.part", 10, 1e9),
    ]
    uses = {"a": 5.0, "b": 9.0}

    def going(needed: int, use: float) -> list[str] | None:
        return files_to_remove(kept, needed, 40, use, uses, now=1e9)

    assert going(0, 1) == []
    assert going(10, 1) == ["c"]  # nobody plans to use it
    assert going(20, 1) == ["c", "b"]  # used last
    assert going(20, 9) is None
    assert going(30, 7) is None
    assert files_to_remove(kept, 41, 40, 1, uses, now=1e9) is None
    busy = [CachedFile("somebody's", 40, 1e9 - 5)]
    assert files_to_remove(busy, 10, 40, 1, uses, now=1e9) is None


def test_a_file_that_does_not_fit_is_not_fetched(files: list[Wanted], tmp_path: Path) -> None:
    assert FileCache(tmp_path / "cache/objects", 999).fetch(files[0]) is None
    assert FileCache(tmp_path / "far/data/0/objects", 9999).fetch(files[0]) is None  # where no folder can be


def test_a_full_disk_is_no_fault(files: list[Wanted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FileCache(tmp_path / "cache/objects", 9999)

    def full(self: FileCache, wanted: Wanted, part: Path) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(FileCache, "_download", full)
        assert cache.fetch(files[0]) is None
    assert cache.kept() == []
    assert cache.fetch(files[0]) is not None


def test_what_arrives_damaged_is_not_kept(files: list[Wanted], tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "cache/objects", 9999)
    with pytest.raises(StoreError, match=r"data/1.*verify"):
        cache.fetch(files[0]._replace(key="data/1"))
    assert cache.kept() == []


def test_a_file_that_its_fetcher_abandoned_is_fetched_again(files: list[Wanted], tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "cache/objects", 9999)
    cache.folder.mkdir(parents=True)
    part = cache.folder / f"{files[0].name}.part"
    part.write_bytes(b"")
    os.utime(part, (time.time() - 100,) * 2)
    assert cache.fetch(files[0]) is not None and not part.exists()


def fetch_all(folder: Path, files: list[Wanted]) -> bool:
    cache = FileCache(folder, 9999)
    return all(path is not None and len(path.read_bytes()) == 1000 for path in map(cache.fetch, files))


@pytest.mark.slow
def test_processes_share_what_they_fetch(files: list[Wanted], tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        assert all(pool.starmap(fetch_all, [(tmp_path / "cache/objects", files)] * 8))
    assert names(FileCache(tmp_path / "cache/objects", 0)) == {file.name for file in files}


def test_files_of_others_are_not_counted_and_not_removed(files: list[Wanted], tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "cache/objects", 1500)
    cache.folder.mkdir(parents=True)
    (cache.folder / "thesis.txt").write_bytes(bytes(5000))
    for file in files:
        assert cache.fetch(file) is not None
    assert (cache.folder / "thesis.txt").exists() and len(cache.kept()) == 1


def test_nothing_is_written_through_links_that_somebody_put_into_the_cache(files: list[Wanted], tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "cache/objects", 1 << 20)
    cache.folder.mkdir(parents=True)
    theirs = tmp_path / "thesis.txt"
    theirs.write_text("mine")
    for place in (tmp_path / "cache/lock", cache.folder / f"{files[1].name}.part", cache.folder / files[2].name):
        place.symlink_to(theirs)
    assert cache.fetch(files[0]) is None
    (tmp_path / "cache/lock").unlink()
    os.utime(theirs, (0, 0))
    assert all(cache.fetch(file) is not None for file in files[:3])
    assert theirs.read_text() == "mine"


def test_its_place_and_size_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("SOLFA_CACHE_BYTES", "1.5GB")
    assert FileCache.choose() == FileCache(tmp_path / "objects", 1_500_000_000)
    assert FileCache.choose(7).max_bytes == 7
    monkeypatch.setenv("SOLFA_CACHE_BYTES", "much")
    with pytest.raises(ConfigError, match=r"SOLFA_CACHE_BYTES.*50GB.*'much'"):
        FileCache.choose()
