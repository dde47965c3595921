"""Files appear whole or not at all, and the first to appear stays."""

import errno
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from solfa.errors import ConfigError
from solfa.files.whole_files import TEMPORARY, create_once, new_directory, publish, replace_atomically, temporary_path


def no_leftovers(root: Path) -> bool:
    return not (root / TEMPORARY).exists() or list((root / TEMPORARY).iterdir()) == []


def break_links(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(source: Any, target: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.parametrize("hard_links", [True, False])
def test_the_first_content_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard_links: bool) -> None:
    if not hard_links:
        break_links(monkeypatch, errno.EPERM)
    path = tmp_path / "folder" / "name"
    assert create_once(tmp_path, path, b"first")
    assert not create_once(tmp_path, path, b"second")
    temporary = temporary_path(tmp_path, "name")
    temporary.write_bytes(b"third")
    assert not publish(temporary, path)
    assert path.read_bytes() == b"first"
    assert path.stat().st_nlink == 1
    assert no_leftovers(tmp_path)


def test_of_many_writers_at_once_one_wins(tmp_path: Path) -> None:
    barrier, wins = threading.Barrier(8), []

    def write(number: int) -> None:
        barrier.wait()
        if create_once(tmp_path, tmp_path / "name", b"%d" % number * 1000):
            wins.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1
    assert (tmp_path / "name").read_bytes() == b"%d" % wins[0] * 1000
    assert no_leftovers(tmp_path)


def test_another_fault_of_link_comes_out_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_links(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        create_once(tmp_path, tmp_path / "name", b"content")
    assert not (tmp_path / "name").exists()
    assert no_leftovers(tmp_path)


def test_content_is_synced_before_the_name_exists_and_the_folders_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, link = os.fsync, os.link

    def record_sync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        events.append(f"sync {path.relative_to(tmp_path).parts[:1] or '.'}")
        fsync(descriptor)

    def record_link(source: Any, target: Any) -> None:
        events.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "link", record_link)
    create_once(tmp_path, tmp_path / "folder" / "name", b"content")
    assert events == [f"sync {(TEMPORARY,)}", "sync .", "link", "sync ('folder',)"]


def test_temporary_names_do_not_collide(tmp_path: Path) -> None:
    assert len({temporary_path(tmp_path, "x") for _ in range(100)}) == 100


def test_replacing_leaves_the_old_or_the_new_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "name"
    replace_atomically(path, b"old")
    replace_atomically(path, b"new")
    assert path.read_bytes() == b"new"

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        replace_atomically(path, b"newer")
    assert path.read_bytes() == b"new"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
@pytest.mark.parametrize(
    ("mask", "file", "folder"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700), (0o027, 0o640, 0o750)]
)
def test_whoever_may_read_new_files_may_read_a_new_directory(tmp_path: Path, mask: int, file: int, folder: int) -> None:
    before = os.umask(mask)
    try:
        with new_directory(tmp_path / "model") as made:
            (made / "model.safetensors").touch(0o600)  # as safetensors leaves it
            (made / "codec").mkdir()
            (made / "codec/config.json").touch(0o600)
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / "model", *(tmp_path / "model").rglob("*")]}
    assert modes == {"model": folder, "codec": folder, "model.safetensors": file, "config.json": file}


def test_a_new_directory_is_not_made_where_a_link_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "model").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="model: already exists"), new_directory(tmp_path / "model"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
