"""On a real Slurm of two nodes: every task knows its part, and what a killed node took down ends as if undisturbed."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from solfa.demo.demo_paths import demo_folder
from solfa.store.layout import committed_shards
from tests.scale.clusters.conftest import Local
from tests.scale.clusters.encode_runs import CODEC, PATIENCE, SOLFA
from tests.scale.clusters.process_trees import wait_until
from tests.scale.clusters.slurm_nodes import CORES, NODES, SlurmCluster
from tests.trees import tree_digest

pytestmark = pytest.mark.scale

WHO = """
import json, os
from solfa.encoding.placement import Encoders
chosen = Encoders.choose("cpu", None, None, os.environ)
print(json.dumps([chosen.rank, chosen.turn, chosen.count]))
"""
"""Prints what a task takes itself to be, and how many encoders it would start."""

DEVICE = """
import os
from solfa.encoding.placement import Encoders
from solfa.environment.ranks import read_rank
seen = len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
print(f"{seen}:{Encoders('cuda', 1, 4, read_rank(os.environ), num_devices=seen).device_of(0)}")
"""
"""Prints how many devices a task sees, and which it would take, as far as that can be told without any."""


def encode(source: Path, dest: Path, *flags: str) -> list[str]:
    return [*SOLFA, "encode", str(source), str(dest), "--codec", CODEC, *flags]


def submit(slurm: SlurmCluster, log: Path, command: list[str], *flags: str) -> str:
    """Submit a job; return its number."""
    wrapped = ["--wrap", shlex.join(command), f"--output={log}-%a.out", "--open-mode=append"]
    return slurm.run("sbatch", "--parsable", *flags, *wrapped).strip()


def wait_for_commits(dest: Path, number: int) -> None:
    wait_until(lambda: dest.exists() and len(committed_shards(dest)) >= number, PATIENCE)


@pytest.mark.parametrize(
    ("flags", "counts"),
    [
        (["-N2", "-n2"], [1, 1]),
        (["-N2", "-n4"], [1, 1, 1, 1]),
        (["-N2", "-n3"], [1, 1, 1]),
        (["-N2", "-n2", f"-c{CORES}"], [CORES, CORES]),
    ],
    ids=lambda value: "".join(value) if isinstance(value[0], str) else "",
)
def test_tasks_share_the_cores_of_their_node(slurm: SlurmCluster, flags: list[str], counts: list[int]) -> None:
    """Nobody asked for tasks per node, so Slurm does not set `SLURM_NTASKS_PER_NODE`; and no task is bound to cores."""
    lines = slurm.run("srun", *flags, sys.executable, "-c", WHO, SLURM_DEBUG="0").splitlines()
    tasks = sorted(json.loads(line) for line in lines if line.startswith("["))
    assert [rank[:2] for rank, _, _ in tasks] == [[number, len(counts)] for number in range(len(counts))]
    assert [turn for _, turn, _ in tasks] == [[number, len(counts)] for number in range(len(counts))]
    assert [count for _, _, count in tasks] == counts


def test_tasks_with_a_device_of_their_own_take_it(slurm: SlurmCluster) -> None:
    """Slurm shows one device to each; the second task on a node must not look for a second one."""
    lines = slurm.run("srun", "-N2", "-n4", "--gpus-per-task=1", sys.executable, "-c", DEVICE).split()
    assert lines == ["1:cuda:0"] * 4


@pytest.mark.parametrize("tasks", [2, 4])
def test_tasks_of_one_srun_encode_together(
    slurm: SlurmCluster, recordings: Path, local: Local, tmp_path: Path, tasks: int
) -> None:
    dest = tmp_path / "music.solfa"
    printed = slurm.run("srun", "-N2", f"-n{tasks}", *encode(recordings, dest))
    assert tree_digest(dest) == local.files
    assert printed.count("1 recording") == tasks, "each reports on the whole dataset"


def test_tasks_of_an_array_have_a_part_each(
    slurm: SlurmCluster, recordings: Path, local: Local, tmp_path: Path
) -> None:
    """They are no ranks, and know nothing of each other."""
    dest = tmp_path / "music.solfa"
    command = encode(recordings, dest, "--num-encoders", "1")
    job = submit(slurm, tmp_path / "array", command, "--array=3-4", f"-c{CORES}")
    slurm.wait_for_job(job)
    assert tree_digest(dest) == local.files
    tried = [
        int(re.search(r"\((\d+) (?:tried )?in this run", (tmp_path / f"array-{task}.out").read_text())[1])
        for task in (3, 4)
    ]
    assert sum(tried) == local.report.new_clips and min(tried) > 0, tried


def test_a_job_on_a_node_that_dies_is_requeued_and_gives_the_same_bytes(
    slurm: SlurmCluster, recordings: Path, local: Local, tmp_path: Path
) -> None:
    dest = tmp_path / "music.solfa"
    job = submit(slurm, tmp_path / "job", encode(recordings, dest, "--num-encoders", "1"), "--requeue")
    wait_for_commits(dest, 2)
    kill_node_of(slurm, job, lambda: slurm.wait_for_job(job))
    assert tree_digest(dest) == local.files


def kill_node_of(slurm: SlurmCluster, job: str, wait: Callable[[], None]) -> None:
    """Kill the node that a job runs on, wait for its second try, and bring the node back."""
    node = slurm.run("squeue", "-h", "-j", job, "-o", "%N").strip()
    assert node in NODES
    slurm.kill_node(node)
    try:
        wait()
        history = slurm.run("sacct", "-X", "-D", "-n", "-P", "-j", job, "-o", "State,NodeList").split()
        assert history == [f"NODE_FAIL|{node}", f"COMPLETED|{next(name for name in NODES if name != node)}"]
    finally:
        slurm.start_node(node)
        slurm.wait_for_node(node, "idle")


GRID = '''
"""A grid of one experiment that is long enough to be killed."""

from dora.explore import Explorer


@Explorer
def explorer(launcher):
    """Launch it."""
    launcher.slurm_(gpus=0, cpus_per_gpu=1, mem_per_gpu=2)
    launcher.bind_({"solver": "lm/debug", "optim.epochs": 4, "generate.every": 4, "evaluate.every": 4})
    launcher()
'''


def history(folder: Path) -> list[object]:
    """Read the numbers of all epochs so far."""
    return [epoch for file in folder.glob("xps/*/history.json") for epoch in json.loads(file.read_text())]


def test_a_grid_whose_node_dies_ends_with_the_numbers_of_an_undisturbed_one(
    slurm: SlurmCluster, tmp_path: Path, demo_recordings: Path
) -> None:
    for name in ("quiet", "loud"):  # in which `//demo` need not be synthesised again
        shutil.copytree(demo_recordings, demo_folder(tmp_path / name))
    package = tmp_path / "sweeps" / "grids"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package.parent / "__init__.py").touch()
    (package / "one.py").write_text(GRID)
    places = {"PYTHONPATH": str(tmp_path), "SOLFA_DORA_DIR": str(tmp_path / "quiet")}
    grid = [*SOLFA, "grid", "-P", "sweeps", "one"]
    slurm.run(*grid, "--local", **places)
    places["SOLFA_DORA_DIR"] = str(tmp_path / "loud")
    with (tmp_path / "grid.out").open("w") as out:
        following = subprocess.Popen(grid, env={**os.environ, **slurm.environment, **places}, stdout=out, stderr=out)
    try:
        wait_until(lambda: bool(history(tmp_path / "loud")), PATIENCE)
        job = slurm.run("squeue", "-h", "-o", "%A").strip()
        kill_node_of(slurm, job, lambda: slurm.wait_for_job(job))
    finally:
        following.kill()  # it looks again every five minutes
        following.wait()
    assert len(history(tmp_path / "loud")) == 4
    assert history(tmp_path / "loud") == history(tmp_path / "quiet")
    after = slurm.run(*grid, **places)
    assert "COM" in after and "Scheduled" not in after, "Slurm's accounting says that it is done"
