"""One run at a time in a folder."""

import fcntl
import os
import platform
import signal
import subprocess
import sys
import threading
import time

import pytest

from solfa.errors import ConfigError, StoreError
from solfa.xp.layout import LOCK
from solfa.xp.lock import LockState, locked, read_lock

HOLD = """
import sys, time
from pathlib import Path
from solfa.xp.lock import locked
with locked(Path(sys.argv[1])):
    time.sleep(60)
"""


def test_a_second_run_is_refused_until_the_first_is_gone_however_it_went(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)])
    deadline = time.monotonic() + 60
    while not (tmp_path / LOCK).exists() or not (tmp_path / LOCK).read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert read_lock(tmp_path) == LockState(True, platform.node(), holder.pid)
    with pytest.raises(ConfigError, match=f"process {holder.pid} on .*running"), locked(tmp_path):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert read_lock(tmp_path) == LockState(False, platform.node(), holder.pid), "it was killed"
    with locked(tmp_path):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()
    assert read_lock(tmp_path) == LockState()
    with locked(tmp_path):
        pass


def test_looking_at_the_lock_does_not_keep_a_run_from_starting(tmp_path):
    with locked(tmp_path):
        pass
    with (tmp_path / LOCK).open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        timer = threading.Timer(0.1, fcntl.flock, [file, fcntl.LOCK_UN])
        timer.start()
        with locked(tmp_path):
            timer.join()


def test_a_lock_of_another_machine_cannot_be_told(tmp_path):
    assert read_lock(tmp_path) == LockState()
    (tmp_path / LOCK).write_text('{"host": "node17", "process": 3}')
    assert read_lock(tmp_path) == LockState(None, "node17", 3)
    (tmp_path / LOCK).write_text("what is this")
    assert read_lock(tmp_path) == LockState()


def test_nothing_is_written_through_a_link_in_place_of_the_lock(tmp_path):
    (tmp_path / "mine").write_text("dear")
    (tmp_path / "xp").mkdir()
    (tmp_path / "xp" / LOCK).symlink_to(tmp_path / "mine")
    assert read_lock(tmp_path / "xp") == LockState()
    with pytest.raises(StoreError, match="link"), locked(tmp_path / "xp"):
        pass
    assert (tmp_path / "mine").read_text() == "dear"
