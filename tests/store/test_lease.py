"""Leases: one fresh owner at a time, stale ones taken over."""

import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from solfa.store import lease as lease_module
from solfa.store.lease import STALE_SECONDS, Lease, drop_lease, is_leased, lease_key, lease_owner, live_leases


def make_older(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_a_fresh_lease_is_not_given_twice_and_is_free_after_release(tmp_path: Path) -> None:
    lease = Lease.take(tmp_path, 3)
    assert lease is not None
    with lease:
        assert Lease.take(tmp_path, 3) is None
        assert is_leased(tmp_path, 3)
        other = Lease.take(tmp_path, 4)
        assert other is not None
        with other:
            assert live_leases(tmp_path) == [3, 4]
    assert not is_leased(tmp_path, 3)
    assert live_leases(tmp_path) == []
    assert not (tmp_path / lease_key(3)).exists()


def test_a_stale_lease_is_taken_over_and_fresh_again(tmp_path: Path) -> None:
    path = tmp_path / lease_key(0)
    path.parent.mkdir()
    path.write_text("another-machine 1")
    make_older(path, STALE_SECONDS - 10)
    assert Lease.take(tmp_path, 0) is None
    make_older(path, STALE_SECONDS + 10)
    assert live_leases(tmp_path) == []
    lease = Lease.take(tmp_path, 0)
    assert lease is not None
    with lease:
        assert live_leases(tmp_path) == [0]


def test_the_lease_of_a_dead_process_of_this_machine_is_free_at_once(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from typing import Any
from solfa.store.lease import Lease
assert Lease.take(Path({str(tmp_path)!r}), 0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    assert (tmp_path / lease_key(0)).exists()
    assert not is_leased(tmp_path, 0)
    lease = Lease.take(tmp_path, 0)
    assert lease is not None
    lease.release()


def test_a_lease_is_signed_from_the_moment_it_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    real_link = os.link

    def link(source: Path, target: Path) -> None:
        real_link(source, target)
        seen.append(Path(target).read_text())

    monkeypatch.setattr(os, "link", link)
    lease = Lease.take(tmp_path, 0)
    assert lease is not None
    with lease:
        assert seen == [f"{platform.node()} {os.getpid()}"]
        assert [path.name for path in (tmp_path / ".tmp").iterdir()] == ["lease-00000"]


def test_the_lease_of_another_machine_counts_by_its_age(tmp_path: Path) -> None:
    path = tmp_path / lease_key(0)
    path.parent.mkdir()
    path.write_text("some-other-machine 1")
    assert is_leased(tmp_path, 0)
    make_older(path, STALE_SECONDS + 10)
    assert not is_leased(tmp_path, 0)


def test_a_lease_is_kept_fresh_while_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "BEAT_SECONDS", 0.001)
    lease = Lease.take(tmp_path, 0)
    assert lease is not None
    with lease:
        make_older((tmp_path / lease_key(0)), STALE_SECONDS + 10)
        deadline = time.monotonic() + 30
        while not is_leased(tmp_path, 0) and time.monotonic() < deadline:
            time.sleep(0.001)
        assert is_leased(tmp_path, 0)


def test_a_lease_that_was_collected_is_released_quietly(tmp_path: Path) -> None:
    lease = Lease.take(tmp_path, 0)
    assert lease is not None
    (tmp_path / lease_key(0)).unlink()
    (tmp_path / ".tmp").rmdir()
    lease.release()
    lease.release()


def test_whatever_lies_in_the_place_of_a_lease_holds_nobody_up(tmp_path: Path) -> None:
    folder = (tmp_path / lease_key(0)).parent
    folder.mkdir()
    os.mkfifo(tmp_path / lease_key(0))
    (tmp_path / lease_key(1)).mkdir()
    (tmp_path / "theirs").write_text("mine")
    (tmp_path / lease_key(2)).symlink_to(tmp_path / "theirs")
    (folder / "lease-notes").write_text("not a number")
    assert live_leases(tmp_path) == []
    lease = Lease.take(tmp_path, 2)
    assert lease is not None
    lease.release()
    assert (tmp_path / "theirs").read_text() == "mine"


def test_a_lease_is_dropped_for_its_owner_and_for_nobody_else(tmp_path: Path) -> None:
    lease = Lease.take(tmp_path, 0)
    assert lease is not None
    drop_lease(tmp_path, 0, "node7 12")
    assert is_leased(tmp_path, 0)
    drop_lease(tmp_path, 0, lease_owner())
    drop_lease(tmp_path, 0, lease_owner())
    assert not is_leased(tmp_path, 0)
    lease.release()


@pytest.mark.parametrize("step", ["write_text", "link"])
def test_a_claim_survives_somebody_who_clears_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """The folder goes between two steps of claiming, as when the last of several ranks ends."""
    place: Any = Path if step == "write_text" else os
    really = getattr(place, step)

    def clear_first(*arguments: Any) -> Any:
        monkeypatch.setattr(place, step, really)
        shutil.rmtree(tmp_path / ".tmp")
        return really(*arguments)

    monkeypatch.setattr(place, step, clear_first)
    lease = Lease.take(tmp_path, 0)
    assert lease is not None
    with lease:
        assert is_leased(tmp_path, 0)
        assert [path.name for path in (tmp_path / ".tmp").iterdir()] == ["lease-00000"]
