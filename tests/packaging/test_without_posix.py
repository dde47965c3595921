"""What Windows lacks is not needed to write and read a dataset; what does need it says so.

The system and the libraries stay what they are: modules of Solfa read `"win32"` where they ask for `sys.platform`, and
what they could use only elsewhere is taken away. What another file system does differently is left to the workflow that
runs on Windows.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PRETEND = """
import importlib.machinery, os, signal, sys

class Windows(importlib.machinery.SourceFileLoader):
    def path_stats(self, path):
        raise OSError("compiled code asks for another system")

    def get_data(self, path):
        return super().get_data(path).replace(b"sys.platform", b"'win32'")

class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target) if name.partition(".")[0] == "solfa" else None
        if spec is not None:
            spec.loader = Windows(spec.loader.name, spec.loader.path)
        return spec

sys.meta_path.insert(0, Finder)
for library in ("numpy", "pyarrow.parquet", "soundfile", "soxr", "torch", "typer.testing"):
    importlib.import_module(library)
for name in ("O_CLOEXEC", "O_NONBLOCK", "fork", "getuid", "killpg", "pread", "sched_getaffinity", "sync"):
    delattr(os, name)
for name in ("SIGHUP", "SIGKILL"):
    delattr(signal, name)
os.O_BINARY = os.O_NOINHERIT = 0
killed = []
os.kill = lambda *arguments: killed.append(arguments)
"""
USE = """
import json
import solfa
from pathlib import Path
from solfa.store.lease import Lease, is_leased
from solfa.xp.lock import locked

report = solfa.encode("audio", "music.solfa", codec="mulaw", num_workers=0)
assert (report.clips, report.failed) == (9, 0), report
dataset = solfa.open_dataset("music.solfa")
assert len(dataset) == 9 and all(clip.array.size for clip in dataset)
assert solfa.encode("audio", "music.solfa", codec="mulaw", num_workers=0).clips == 9

from typer.testing import CliRunner
from solfa.cli.main import app
for words in (["--help"], ["verify", "music.solfa"], ["status", "music.solfa"], ["decode", "music.solfa", "decoded"],
              ["export", "music.solfa", "npy", "--format", "npy"]):
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (words, done.output, done.exception)

with Lease.take(Path("music.solfa"), 99):
    assert is_leased(Path("music.solfa"), 99)
assert killed == []
try:
    with locked(Path("experiment")):
        raise AssertionError("it was locked")
except solfa.errors.ConfigError as refused:
    print(refused)
"""


@pytest.mark.slow
def test_a_dataset_is_written_and_read_without_what_only_posix_has(audio_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PRETEND + USE],
        cwd=audio_folder.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "experiments need Linux or macOS" in done.stdout
