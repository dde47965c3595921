"""Encode in forked children, several at once, and kill them, at named points or at random; run by test_kills.py.

Everything is imported once, so that a child costs milliseconds and many kills take seconds. Writes JSON.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import torch

import solfa
from solfa.codecs.catalogue import load_codec
from solfa.encoding import api, frozen_plan, supervision  # noqa: F401  (imported before forking)
from solfa.encoding.repair import repair_dataset
from solfa.files.crash_points import VARIABLE
from solfa.store.verification import verify
from tests.trees import tree_digest

T = TypeVar("T")
CODEC = "mulaw:sample_rate=4000"
RANKS = [{"RANK": str(rank), "WORLD_SIZE": "2"} for rank in range(2)]
OF_RANKS = ("plan:joined", "plan:told")
"""Points that only one of several ranks passes."""


def encode_in_child(source: Path, dest: Path, **environment: str) -> int:
    """Start a child that encodes; return its process id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.environ.update(environment)
            torch.set_num_threads(1)
            solfa.encode(source, dest, codec=load_codec(CODEC), segment_seconds=10)
            code = 0
        finally:
            os._exit(code)
    return pid


def in_child(function: Callable[[], T]) -> T:
    """Call a function in a child: the parent never starts a thread, so that forking it stays safe."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, json.dumps(function()).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        result: T = json.load(pipe)
    wait_for(pid)
    return result


def wait_for(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def problems(dest: Path) -> list[str]:
    """What is wrong with a dataset, being unfinished excepted."""
    if not (dest / "dataset.json").exists():
        return []
    found = in_child(lambda: [f"{problem.path}: {problem.message}" for problem in verify(dest).problems])
    return [problem for problem in found if "unfinished" not in problem]


def kill_at_points(source: Path, work: Path, points: list[str], clean: dict[str, str]) -> dict[str, object]:
    results: dict[str, object] = {}
    for index, point in enumerate(points):
        dest = work / f"point{index}.solfa"
        ranked = RANKS[0] if point in OF_RANKS else {}
        killed = wait_for(encode_in_child(source, dest, **{VARIABLE: point}, **ranked))
        wrong = problems(dest)
        finished = wait_for(encode_in_child(source, dest, **ranked))
        results[point] = {
            "killed": killed == -signal.SIGKILL,
            "problems": wrong + problems(dest),
            "finished": finished == 0,
            "same": tree_digest(dest) == clean,
        }
    return results


def repair_in_child(source: Path, dest: Path, **environment: str) -> int:
    """Start a child that repairs; return its process id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.environ.update(environment)
            torch.set_num_threads(1)
            report = repair_dataset(dest, source=source, codec=load_codec(CODEC))
            code = len(report.verification.problems)
        finally:
            os._exit(code)
    return pid


def kill_repairs(source: Path, work: Path, points: list[str], clean: dict[str, str]) -> dict[str, object]:
    """Damage a file of every kind, kill a repair at each point, and repair again; in between, nothing more is lost."""
    results: dict[str, object] = {}
    for index, point in enumerate(points):
        dest = Path(shutil.copytree(work / "clean.solfa", work / f"repair{index}.solfa"))
        for kind in ("data/00000*", "data/00001*", "meta/00001*", "commit/00002*", "manifest/*"):
            for path in dest.glob(kind):
                path.write_bytes(path.read_bytes()[:-9])
        damaged = tree_digest(dest)
        killed = wait_for(repair_in_child(source, dest, **{VARIABLE: point}))
        left = tree_digest(dest)
        repaired = wait_for(repair_in_child(source, dest))
        results[point] = {
            "killed": killed == -signal.SIGKILL,
            "lost more": [name for name in clean if left.get(name) not in (clean[name], damaged[name])],
            "repaired": repaired == 0,
            "same": tree_digest(dest) == clean,
        }
    return results


def kill_at_random(source: Path, work: Path, count: int, clean: dict[str, str], seconds: float) -> dict[str, object]:
    rng = random.Random(0)
    kills, completed, wrong, different = 0, 0, [], 0
    dest = work / "random0.solfa"
    while kills < count:
        pid = encode_in_child(source, dest)
        time.sleep(rng.uniform(0, seconds))
        os.kill(pid, signal.SIGKILL)
        if wait_for(pid) == -signal.SIGKILL:
            kills += 1
            wrong += problems(dest)
        else:
            completed += 1
            different += tree_digest(dest) != clean
            dest = work / f"random{completed}.solfa"
    finished = wait_for(encode_in_child(source, dest))
    different += tree_digest(dest) != clean
    return {"kills": kills, "problems": wrong, "different": different, "finished": finished == 0}


def encode_together(source: Path, dest: Path, clean: dict[str, str], *environments: dict[str, str]) -> bool:
    """Encode with several processes at once; tell whether all ended well, with the bytes of one process."""
    children = [encode_in_child(source, dest, **environment) for environment in environments]
    codes = [wait_for(child) for child in children]
    return not any(codes) and tree_digest(dest) == clean


def main() -> None:
    os.fsync = lambda descriptor: None  # nothing here cuts the power
    pa.array(np.zeros(1))  # makes pyarrow import pandas, if it is installed, here instead of in every child
    source, work, points, count = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
    clean_dest = work / "clean.solfa"
    started = time.monotonic()
    assert wait_for(encode_in_child(source, clean_dest)) == 0
    seconds = time.monotonic() - started
    clean = tree_digest(clean_dest)
    result = {
        "terminals": encode_together(source, work / "terminals.solfa", clean, {}, {}),
        "ranks": encode_together(source, work / "ranks.solfa", clean, *RANKS),
        "shards": sum(name.startswith("commit/") for name in clean),
        "clean_problems": problems(clean_dest),
        "points": kill_at_points(source, work, points, clean),
        "repairs": kill_repairs(source, work, json.loads(sys.argv[5]), clean),
        "random": kill_at_random(source, work, count, clean, seconds) if count else None,
    }
    Path(sys.argv[6]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
