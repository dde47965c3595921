"""One run at a time in a folder."""

import os
import signal
import subprocess
import sys
import time

import pytest

from solfa.errors import ConfigError
from solfa.xp.layout import LOCK
from solfa.xp.lock import locked

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
    with pytest.raises(ConfigError, match=f"process {holder.pid} on .*running"), locked(tmp_path):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with locked(tmp_path):
        assert str(os.getpid()) in (tmp_path / LOCK).read_text()
    with locked(tmp_path):
        pass
