"""On a real Ray cluster of two nodes: the bytes, the report and the progress of a local run, whatever dies."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

import solfa
from solfa.encoding.progress import Silence, Totals
from solfa.errors import ConfigError
from tests.scale.clusters.conftest import Local
from tests.scale.clusters.encode_runs import CODEC, PATIENCE, SOLFA, EncodeRun
from tests.scale.clusters.process_trees import command_of, descendants, kill, wait_until
from tests.scale.clusters.ray_nodes import RAY, RayCluster
from tests.trees import tree_digest

pytestmark = pytest.mark.scale


def on_ray(cluster: RayCluster, source: Path, dest: Path | str) -> EncodeRun:
    return EncodeRun(source, dest, "--executor", "ray", "--ray-address", cluster.address)


def facts(printed: str) -> dict[str, str]:
    """Read the report on the terminal, without the speed and the dataset's name."""
    rows = re.findall(r"^(clips|audio|frames|size|failed|  failed) +(.*?) *$", printed, re.MULTILINE)
    assert [name for name, _ in rows] == ["clips", "audio", "frames", "size", "failed", "  failed"], printed
    return dict(rows)


def expect_same(run: EncodeRun, local: Local) -> None:
    """The dataset is that of a local run, and every clip was counted once."""
    printed = facts(run.finish())
    assert tree_digest(run.dest) == local.files
    assert printed["clips"] == f"{local.report.clips} ({local.report.new_clips} tried in this run)"
    assert printed["failed"].startswith("1 recording")
    assert list((run.dest / ".tmp").iterdir()) == [], "no lease and no file is left behind"


def warnings(run: EncodeRun) -> list[str]:
    """Return what was said besides how far it is."""
    return [line for line in run.errors.splitlines() if not line.startswith("encoding: ")]


class Steps(Silence):
    """Notes what a progress bar would show."""

    def __init__(self) -> None:
        self.clips: list[int] = []
        self.total = 0

    def encoding(self, totals: Totals, clips: int, seconds: float) -> None:
        self.clips.append(totals.clips)
        self.total = clips


def test_the_function_gives_bytes_progress_and_report_of_a_local_run(ray_cluster, recordings, local, tmp_path):
    import ray

    steps, before = Steps(), signal.getsignal(signal.SIGTERM)
    dest = tmp_path / "music.solfa"
    report = solfa.encode(
        recordings, dest, codec=CODEC, executor="ray", ray_address=ray_cluster.address, listener=steps
    )
    assert tree_digest(dest) == local.files
    for name in ("clips", "failed", "new_clips", "num_frames", "num_bytes", "failures", "resampled", "sample_rate"):
        assert getattr(report, name) == getattr(local.report, name), name
    assert report.new_seconds == pytest.approx(local.report.new_seconds)
    assert 0 < report.codec_share <= 1 and report.speed > 0
    assert steps.clips == sorted(steps.clips) and steps.clips[-1] == steps.total == report.new_clips
    assert not ray.is_initialized() and signal.getsignal(signal.SIGTERM) == before, "all is as it was"
    assert solfa.encode(recordings, dest, executor="ray", ray_address=ray_cluster.address).new_clips == 0
    with pytest.raises(ConfigError, match="`device=mps`"):
        solfa.encode(recordings, dest, executor="ray", ray_address=ray_cluster.address, device="mps")
    assert not ray.is_initialized(), "not even after what is refused"


def test_both_nodes_work_and_a_killed_encoder_is_replaced(ray_cluster, recordings, local, tmp_path):
    run = on_ray(ray_cluster, recordings, tmp_path / "music.solfa")
    nodes = (ray_cluster.head, ray_cluster.second)
    wait_until(lambda: all(set(descendants(node.pid)) & set(run.wait_for_work(0).values()) for node in nodes), PATIENCE)
    kill(run.stop_one_at_work())
    expect_same(run, local)
    assert len(warnings(run)) == 1 and "lost" in run.errors, run.errors


def test_a_killed_driver_takes_its_encoders_along_and_the_next_one_goes_on(ray_cluster, recordings, local, tmp_path):
    run = on_ray(ray_cluster, recordings, tmp_path / "music.solfa")
    encoders = run.wait_for_work()
    run.kill()
    wait_until(lambda: not any("worker_main" in command_of(pid) for pid in encoders.values()), PATIENCE)
    again = on_ray(ray_cluster, recordings, tmp_path / "music.solfa")
    again.finish()
    assert tree_digest(again.dest) == local.files


def test_a_driver_that_is_asked_to_stop_does_so_in_order(ray_cluster, recordings, local, tmp_path):
    run = on_ray(ray_cluster, recordings, tmp_path / "music.solfa")
    run.wait_for_work()
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 128 + signal.SIGTERM, run.errors
    assert "run the same command" in run.errors
    assert list((run.dest / ".tmp").iterdir()) == [], "encoders gave up their shards"
    on_ray(ray_cluster, recordings, run.dest).finish()
    assert tree_digest(run.dest) == local.files


def test_three_encoders_lost_in_one_shard_end_the_run_with_a_sentence(ray_cluster, recordings, local, tmp_path):
    """Each encoder begins at a shard of its own, and so does whoever takes its place: each loses three at most."""
    run = on_ray(ray_cluster, recordings, tmp_path / "music.solfa")
    killed: set[int] = set()
    while run.process.poll() is None:
        for pid in run.writers() - killed:
            kill(pid)
            killed.add(pid)
        time.sleep(0.02)
    assert run.wait() == 1
    assert 3 <= len(killed) <= 6
    assert re.search(r"3 encoders were lost in shard 0000\d,", " ".join(run.errors.split())), run.errors
    on_ray(ray_cluster, recordings, run.dest).finish()
    assert tree_digest(run.dest) == local.files


def test_a_job_that_is_submitted_finds_the_cluster_it_runs_in(ray_cluster, recordings, local, tmp_path):
    dest = tmp_path / "music.solfa"
    encode = [*SOLFA, "encode", str(recordings), str(dest), "--codec", CODEC, "--executor", "ray"]
    done = subprocess.run(
        [*RAY, "job", "submit", "--address", ray_cluster.dashboard, "--", *encode],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert tree_digest(dest) == local.files


def test_into_a_bucket(ray_cluster, recordings, local, bucket):
    from tests.encoding.test_bucket_encoding import objects

    run = on_ray(ray_cluster, recordings, f"{bucket}/music.solfa")
    run.finish()
    assert objects(f"{bucket}/music.solfa") == local.files


def test_a_killed_raylet_costs_the_work_of_its_encoder_and_nothing_else(ray_cluster, recordings, local, tmp_path):
    run = on_ray(ray_cluster, recordings, tmp_path / "music.solfa")
    at_work = run.stop_one_at_work(below=ray_cluster.second.pid)
    ray_cluster.kill(ray_cluster.second, only_raylet=True)
    wait_until(lambda: "lost" in run.errors or run.process.poll() is not None, PATIENCE)
    kill(at_work)
    expect_same(run, local)
    assert len(warnings(run)) == 1 and "lost" in run.errors, run.errors


def test_a_node_that_cannot_take_part_is_named_before_any_work(ray_cluster, recordings, tmp_path):
    """It has another soxr, and something else where the dataset should be."""
    other = tmp_path / "packages" / "soxr-0.0.1.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: soxr\nVersion: 0.0.1\n")
    hidden = tmp_path / "shared"
    hidden.mkdir()
    blind = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{hidden}" && exec "$@"', "sh"]
    if os.getuid():
        blind.insert(1, "--map-root-user")
    if subprocess.run([*blind, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount anything: no node can be made blind")
    node = ray_cluster.add_node(prefix=blind, PYTHONPATH=str(other.parent))
    try:
        run = on_ray(ray_cluster, recordings, hidden / "music.solfa")
        assert run.wait() == 2, run.errors
    finally:
        ray_cluster.kill(node)
    sentence = " ".join(run.errors.split())
    assert "1 of " in sentence and "does not see" in sentence and "nothing was encoded" in sentence, sentence
    assert re.search(r"soxr .*0\.0\.1", sentence), sentence
    assert not list(run.dest.glob("plan/*")) and not list(run.dest.glob("commit/*"))
