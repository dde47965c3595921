"""One experiment as several processes: what each is told, and how they end."""

import os
import sys
from pathlib import Path

from solfa.environment.ranks import Rank, read_rank, usable_cores
from solfa.experiments.processes.ddp import free_port, run_workers, worker_environments


def python(text: str) -> list[str]:
    return [sys.executable, "-c", f"import os, sys, time\nrank = int(os.environ['RANK'])\n{text}"]


def environments(count: int) -> list[dict[str, str]]:
    return worker_environments(os.environ, count, free_port(), "a run")


def test_each_process_knows_its_rank_the_meeting_point_and_its_threads():
    first, second = worker_environments({"HOME": "/h"}, 2, 1234, "name")
    assert read_rank(first) == Rank(0, 2, 0, 2) and read_rank(second) == Rank(1, 2, 1, 2)
    assert {name: second[name] for name in ("MASTER_ADDR", "MASTER_PORT", "SOLFA_RUN", "HOME")} == {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1234",
        "SOLFA_RUN": "name",
        "HOME": "/h",
    }
    assert int(first["OMP_NUM_THREADS"]) == max(1, usable_cores() // 2)
    assert worker_environments({"OMP_NUM_THREADS": "7"}, 2, 1, "")[0]["OMP_NUM_THREADS"] == "7"


def test_the_first_is_heard_and_the_others_write_logs(tmp_path: Path, capfd):
    (tmp_path / "worker_1.log").write_text("of an earlier run")
    assert run_workers(python("print('I am', rank)"), environments(2), tmp_path) == 0
    assert capfd.readouterr().out == "I am 0\n"
    assert (tmp_path / "worker_1.log").read_text() == "I am 1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["worker_1.log"]


def test_one_that_fails_ends_the_others_and_is_named(tmp_path: Path, capfd):
    code = run_workers(python("sys.exit(3) if rank else time.sleep(60)"), environments(2), tmp_path)
    assert code == 3
    told = capfd.readouterr().err
    assert "process 1 of 2 ended with exit code 3" in told and str(tmp_path / "worker_1.log") in told


def test_one_that_is_killed_is_named_with_its_signal(tmp_path: Path, capfd):
    code = run_workers(python("time.sleep(60) if rank else os.kill(os.getpid(), 9)"), environments(2), tmp_path)
    assert (code, "process 0 of 2 ended by SIGKILL" in capfd.readouterr().err) == (1, True)
