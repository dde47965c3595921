"""Forked readers take what is imported along, end with their parent, and are no danger to anybody else."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from solfa.encoding.reader_pool import fork_readers, start_readers
from tests.conftest import write_tone
from tests.encoding.test_read_ahead import planned

forks = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how many threads there are")


def python(script: str, *arguments: str) -> subprocess.Popen[str]:
    """Run a script in a process of its own: one with threads, as that of pytest, does not fork."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@forks
def test_readers_have_what_is_imported_and_no_torch_or_arrow():
    script = """
import sys
import solfa.encoding.read_ahead
from solfa.encoding.reader_pool import fork_readers
solfa.encoding.read_ahead.mark = "set before the fork"
def found():
    heavy = [name for name in ("torch", "pyarrow", "pandas") if name in sys.modules]
    return [getattr(sys.modules["solfa.encoding.read_ahead"], "mark", None), *heavy]
with fork_readers(2) as readers:
    print(readers.submit(found).result())
"""
    out, errors = python(script).communicate(timeout=120)
    assert (out, errors) == ("['set before the fork']\n", "")


@forks
def test_a_process_with_another_thread_is_not_forked():
    script = """
import threading
from solfa.encoding.reader_pool import fork_readers
done = threading.Event()
threading.Thread(target=done.wait).start()
print(fork_readers(1))
done.set()
"""
    assert python(script).communicate(timeout=120) == ("None\n", "")


def test_where_no_processes_are_wanted_none_are_forked():
    assert fork_readers(0) is None
    with start_readers(0) as readers:
        assert readers.submit(os.getpid).result() == os.getpid()


@forks
def test_readers_end_with_a_parent_that_is_killed_and_keep_none_of_its_streams_open():
    script = """
import os, time
from solfa.encoding.reader_pool import fork_readers
readers = fork_readers(2)
print(*readers._processes, flush=True)
readers.submit(os.getpid).result()
print("ready", flush=True)
time.sleep(600)
"""
    process = python(script)
    assert process.stdout is not None and process.stderr is not None
    readers = [int(word) for word in process.stdout.readline().split()]
    assert len(readers) == 2 and process.stdout.readline() == "ready\n"
    process.kill()
    assert process.stdout.read() == ""  # its end comes only if no reader could still write
    process.wait()
    until = time.monotonic() + 60
    while any(_is_running(pid) for pid in readers) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(_is_running(pid) for pid in readers)
    process.stdout.close()
    process.stderr.close()


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@forks
@pytest.mark.slow
def test_a_clip_that_kills_a_forked_reader_costs_no_other_clip(tmp_path):
    clips = [planned(write_tone(tmp_path / f"{index}.wav", 0.05), tmp_path) for index in range(4)]
    script = """
import sys
from pathlib import Path
import solfa.encoding.read_ahead as it
from solfa.encoding.reader_pool import fork_readers
readers = fork_readers(1)
import pickle
from tests.encoding.deadly import DeadlyUri
from dataclasses import replace
clips = pickle.loads(Path(sys.argv[1]).read_bytes())
clips[1] = replace(clips[1], uri=DeadlyUri("1.wav"))
with it.DecodeAhead(it.Target(Path(sys.argv[1]).parent, 16_000, 1), 1, readers) as ahead:
    print([(one.label, one.error) for one in ahead.decode(enumerate(clips))])
"""
    (tmp_path / "clips").write_bytes(pickle.dumps(clips))
    out, errors = python(script, str(tmp_path / "clips")).communicate(timeout=300)
    assert (out, errors) == ("[(0, None), (1, 'its decoder crashed'), (2, None), (3, None)]\n", "")
