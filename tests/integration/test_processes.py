"""Encoder and decoder processes, and signals: the same bytes, and nobody left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import solfa
from solfa.audio import probe as probing
from solfa.encoding.pre_encode.config import parse_pre_encode
from solfa.encoding.pre_encode.session import pre_encode
from solfa.environment.stop_signals import ECHO_SECONDS
from solfa.store.lease import lease_key, live_leases
from solfa.store.status import read_status
from solfa.store.verification import verify
from tests.ready_process import Command, ReadyProcess
from tests.trees import tree_digest

pytestmark = pytest.mark.slow

CODEC = "mulaw:sample_rate=4000"
PATIENCE = 300.0
"""How many seconds anything may take, only against hanging: a busy machine is many times slower than an idle one."""
Start = Callable[..., Command]


def arguments(source: Path, dest: Path) -> list[str]:
    return ["encode", str(source), str(dest), "--codec", CODEC, "--segment-seconds", "10"]


@pytest.fixture
def start(ready: ReadyProcess, several_shards: Path, tmp_path: Path) -> Start:
    """Start `solfa encode` into d.solfa, with further flags and variables."""

    def begin(*flags: object, **environment: str) -> Command:
        return ready.start(*arguments(several_shards, tmp_path / "d.solfa"), *flags, **environment)

    return begin


@pytest.fixture(scope="module")
def clean(several_shards, tmp_path_factory):
    """The digest of a run in this one process, with which every other way is compared."""
    dest = tmp_path_factory.mktemp("clean") / "d.solfa"
    solfa.encode(several_shards, dest, codec=solfa.load_codec(CODEC), segment_seconds=10)
    return tree_digest(dest)


def complete(source: Path, dest: Path, clean: dict[str, str]) -> None:
    """Go on with a dataset in this process, which need not import anything, and find what an unbroken run gives."""
    solfa.encode(source, dest, codec=solfa.load_codec(CODEC), segment_seconds=10)
    assert tree_digest(dest) == clean


def children_of(session: int) -> list[int]:
    """Processes that descend from the given one, by their parents, as Linux lists them."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    found, frontier = [], {session}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found += frontier
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_encoder_processes_give_the_bytes_of_one_process(several_shards, tmp_path, clean):
    dest = tmp_path / "d.solfa"
    command = [sys.executable, "-m", "solfa", *arguments(several_shards, dest), "--num-encoders", "2"]
    run = subprocess.run([*command, "--num-workers", "1"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert tree_digest(dest) == clean
    assert not live_leases(dest)


def test_planning_that_was_killed_goes_on_where_it_was_in_another_rank(
    start, several_shards, tmp_path, clean, monkeypatch
):
    dest = tmp_path / "d.solfa"
    assert start(SOLFA_CRASH_AT="plan:probed", RANK="0", WORLD_SIZE="2").wait() == -signal.SIGKILL
    assert not (dest / "plan").exists()
    opened = []
    probe = probing.probe_recording
    monkeypatch.setattr(
        probing, "probe_recording", lambda root, recording: opened.append(recording.key) or probe(root, recording)
    )
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    complete(several_shards, dest, clean)
    assert opened == ["take99.wav"], "what could not be read is tried again"


def test_a_killed_encoder_process_is_reported_and_what_it_left_is_finished(start, several_shards, tmp_path, clean):
    dest = tmp_path / "d.solfa"
    run = start("--num-encoders", 1, "--num-workers", 0, SOLFA_CRASH_AT="shard:before-commit#2")
    assert run.wait() == 1
    assert re.search("encoder.* signal 9", run.output)
    assert read_status(dest).committed_shards == 1
    complete(several_shards, dest, clean)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes through /proc")
def test_killing_the_command_takes_its_processes_along(start, several_shards, tmp_path, clean):
    dest = tmp_path / "d.solfa"
    run = start("--num-encoders", 1, "--num-workers", 1)
    wait_until(lambda: len(children_of(run.pid)) >= 2)  # an encoder, and its decoder
    descendants = children_of(run.pid)
    run.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in descendants))
    complete(several_shards, dest, clean)


@pytest.mark.parametrize(
    ("number", "everybody", "encoders"),
    [
        pytest.param(signal.SIGINT, True, 1, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, False, 2, id="kill"),
        pytest.param(signal.SIGHUP, True, 1, id="closed terminal"),
    ],
)
def test_a_signal_ends_everything_with_its_code_and_the_same_command_continues(
    start, several_shards, tmp_path, clean, number, everybody, encoders
):
    dest = tmp_path / "d.solfa"
    run = start("--num-encoders", encoders, "--num-workers", 1)
    wait_until(lambda: (dest / ".tmp").is_dir() and live_leases(dest) != [])
    descendants = children_of(run.pid)
    (os.killpg if everybody else os.kill)(run.pid, number)
    code, output = run.wait(), run.output
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in descendants))
    if code == 0:  # it was faster than the signal
        assert tree_digest(dest) == clean
        return
    assert code == 128 + number, output
    assert "stopping" in output and "interrupted" in output and "same command" in output
    assert "Traceback" not in output
    assert not live_leases(dest)
    assert [p for p in verify(dest).problems if "unfinished" not in p.message and "manifest" not in p.path] == []
    complete(several_shards, dest, clean)


def test_ctrl_c_is_acknowledged_at_once_and_a_second_one_does_not_wait(start, several_shards, tmp_path, clean):
    dest = tmp_path / "d.solfa"
    run = start("--num-encoders", 1, "--num-workers", 0)
    wait_until(lambda: (dest / ".tmp").is_dir() and live_leases(dest) != [])
    encoders = children_of(run.pid)
    for pid in encoders:
        os.kill(pid, signal.SIGSTOP)  # as one does that is busy in a long call
    os.killpg(run.pid, signal.SIGINT)
    wait_until(lambda: re.search(r"stopping.*\n", run.output) is not None)
    assert re.search(r"stopping.*again", run.output) and run.poll() is None
    time.sleep(2 * ECHO_SECONDS)  # less would be taken for the echo of the first
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait() == 130
    for pid in encoders:
        os.kill(pid, signal.SIGCONT)
    assert "Traceback" not in run.output
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in encoders))
    complete(several_shards, dest, clean)


def test_a_stopped_encoder_loses_its_shard_and_may_wake_up_later(start, several_shards, tmp_path, clean):
    dest = tmp_path / "d.solfa"
    sleeper = start("--num-encoders", 1, "--num-workers", 0)
    wait_until(lambda: (dest / ".tmp").is_dir() and live_leases(dest) != [])
    asleep = [sleeper.pid, *children_of(sleeper.pid)]
    for pid in asleep:
        os.kill(pid, signal.SIGSTOP)
    for shard in live_leases(dest):
        os.utime((dest / lease_key(shard)), (1, 1))  # an hour passes
    complete(several_shards, dest, clean)
    for pid in reversed(asleep):
        os.kill(pid, signal.SIGCONT)
    assert sleeper.wait() == 0, sleeper.output
    assert tree_digest(dest) == clean
    assert not verify(dest).problems


def test_pre_encode_stops_after_the_batch_it_is_in_and_the_same_command_continues(ready, several_shards, tmp_path):
    data = tmp_path / "data.json"
    collections = [{"id": "x", "path": str(several_shards)}]
    data.write_text(json.dumps({"dataset_type": "audio_dir", "datasets": collections}))
    settings = {"pretrained_name": "solfa_24khz", "is_discrete": True, "dataset_config": str(data), "num_workers": 1}
    settings |= {"sample_size": 120_000, "limit_batches": 16}
    clean, out = ({**settings, "output_path": str(tmp_path / name)} for name in ("clean", "out"))
    pre_encode(parse_pre_encode(clean))
    run = ready.start("pre-encode", *(f"{name}={value}" for name, value in out.items()))
    wait_until(lambda: len(list((tmp_path / "out").glob("0/*.npy"))) > 1)
    os.killpg(run.pid, signal.SIGINT)
    code, output = run.wait(), run.output
    assert code in (0, 130), output  # it may be faster than the signal
    assert code == 0 or ("stopping" in output and "same command" in output)
    assert "Traceback" not in output
    pre_encode(parse_pre_encode(out))
    same = {name: digest for name, digest in tree_digest(tmp_path / "clean").items() if name != "details.json"}
    assert {name: digest for name, digest in tree_digest(tmp_path / "out").items() if name != "details.json"} == same
