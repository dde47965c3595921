"""Two processes with two workers each learn from a bucket what they learn from a disk, to the bit, across kills."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import solfa
from solfa.xp.state_file import read_state
from tests.conftest import write_tone
from tests.scale.stores.contents import copied, processes_below
from tests.solvers.conftest import equal

pytestmark = pytest.mark.scale

SETTINGS = (
    "solver=lm/debug",
    "dset.train.codec=null",
    "dset.train.segment_seconds=null",
    "dataset.num_workers=2",
    "optim.updates_per_epoch=12",
    "checkpoint.minutes=0.0001",
    "generate.every=2",
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    for index in range(24):
        write_tone(folder / f"audio/take{index:02d}.wav", 2.0, 24_000, hz=200.0 + 30 * index)
    solfa.encode(folder / "audio", folder / "tones.solfa", codec="solfa_24khz:num_codebooks=4", num_encoders=1)
    return folder / "tones.solfa"


def start(dora_dir: Path, path: str, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", "from solfa.cli.main import main; main()", "train", "--ddp-workers", "2"]
    environment = {**os.environ, "SOLFA_DORA_DIR": str(dora_dir), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*command, *SETTINGS, f"dset.train.path={path}", *more],
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def trained(process: "subprocess.Popen[str]") -> None:
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said


def folder_of(dora_dir: Path) -> Path:
    (folder,) = (found for found in (dora_dir / "xps").iterdir() if not found.name.startswith("."))
    return folder


def kill_when_saved(process: "subprocess.Popen[str]", dora_dir: Path, updates: int) -> None:
    """Kill all processes of a run once it has saved a state after so many updates."""
    deadline = time.monotonic() + 300
    while True:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        found = list(dora_dir.glob("xps/*/checkpoint.pt"))
        if found:
            state = read_state(found[0])
            if (state["epoch"] - 1) * 12 + state["num_updates"] >= updates:
                break
        time.sleep(0.05)
    # The processes of a run have groups of their own.
    for pid in (process.pid, *processes_below(process.pid, "")):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def learnt(folder: Path) -> dict[str, Any]:
    state = read_state(folder / "checkpoint.pt")
    names = ("epoch", "states", "schedules", "ema", "best", "loader", "history")
    return {**{name: state[name] for name in names}, "weights": read_state(folder / "best.pt")["states"]}


def test_training_from_a_bucket_is_training_from_a_disk(dataset: Path, bucket: str, tmp_path: Path) -> None:
    remote = copied(dataset, f"{bucket}/tones.solfa")
    trained(start(tmp_path / "disk", str(dataset)))
    mirror = f"checkpoint.mirror={bucket}/runs"
    kill_when_saved(start(tmp_path / "bucket", remote, mirror), tmp_path / "bucket", 5)
    # A machine that is gone, and its cache with it: the second start has nothing but the bucket.
    shutil.rmtree(tmp_path / "bucket")
    shutil.rmtree(tmp_path / "cache")
    kill_when_saved(start(tmp_path / "bucket", remote, mirror), tmp_path / "bucket", 17)
    trained(start(tmp_path / "bucket", remote, mirror))
    here, there = folder_of(tmp_path / "disk"), folder_of(tmp_path / "bucket")
    assert equal(learnt(here), learnt(there))
    assert json.loads((here / "history.json").read_text()) == json.loads((there / "history.json").read_text())
    assert sorted(path.name for path in (here / "samples").rglob("*.wav")) == sorted(
        path.name for path in (there / "samples").rglob("*.wav")
    )
