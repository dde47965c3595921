"""Run one experiment as several processes of this machine, which start, stop and fail together.

Dora starts such processes itself (`dora run -d`), but only where there are GPUs, and leaves them training when it is
ended. `supply_dora` puts this module in the place of that part.
"""

import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from solfa.environment.ranks import usable_cores
from solfa.errors import ConfigError
from solfa.experiments.dora_adapter import supply_run
from solfa.experiments.exits import sentences
from solfa.experiments.processes.children import GRACE_SECONDS, Family
from solfa.xp.layout import worker_log_path

if TYPE_CHECKING:
    from dora.xp import XP

    from solfa.experiments.compose.experiment_main import ExperimentMain

RUN = "SOLFA_RUN"
"""A name for one start of an experiment, which all its processes know."""
CPU_WORKERS = 2


def default_workers() -> int:
    """One process per GPU; without any, two on the CPU."""
    import torch

    return torch.cuda.device_count() or CPU_WORKERS


def worker_environments(environment: Mapping[str, str], count: int, port: int, run: str) -> list[dict[str, str]]:
    """Tell each process which one it is, where to meet the others, and how many threads it may use."""
    threads = max(1, usable_cores() // count)
    return [
        {
            "OMP_NUM_THREADS": str(threads),
            **environment,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            RUN: run,
        }
        for rank in range(count)
    ]


def run_command(main: "ExperimentMain", argv: Sequence[str]) -> list[str]:
    """Spell the command that runs an experiment in one process."""
    module = ["-P", main.package, "--main_module", main.main_module]
    return [sys.executable, "-m", "dora", *module, "run", "--", *argv]


def run_workers(
    command: Sequence[str],
    environments: Sequence[Mapping[str, str]],
    folder: Path,
    grace_seconds: float = GRACE_SECONDS,
) -> int:
    """Run one process per environment to the end and return the exit code; the first that fails ends the others.

    What the first prints is seen, what the others print goes to files in the folder.
    """
    with Family(grace_seconds) as family:
        logs = [worker_log_path(folder, rank) if rank else None for rank in range(len(environments))]
        for environment, log in zip(environments, logs, strict=True):
            if log is not None:
                log.write_bytes(b"")
            family.start(command, environment, log)
        while not family.received:
            codes = [child.poll() for child in family.children]
            if failed := [(rank, code) for rank, code in enumerate(codes) if code]:
                return _failure(*failed[0], logs)
            if all(code == 0 for code in codes):
                return 0
            time.sleep(0.05)
    return family.exit_code


def _failure(rank: int, code: int, logs: Sequence[Path | None]) -> int:
    """Say which process failed, unless it was the first, who has said so itself; return the exit code."""
    if code < 0 or logs[rank] is not None:
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        where = f"; what it said is in {logs[rank]}" if logs[rank] else ""
        sys.stderr.write(f"solfa: process {rank} of {len(logs)} ended {how}, the others were ended{where}\n")
    return code if code > 0 else 1


def start_workers(main: "ExperimentMain", xp: "XP", ddp_workers: int | None = None) -> int:
    """Run an experiment whose settings were checked as several processes."""
    if ddp_workers is not None and ddp_workers < 1:
        raise ConfigError(f"`ddp_workers`: expected at least 1 process, found {ddp_workers}")
    main.init_xp(xp)
    environments = worker_environments(os.environ, ddp_workers or default_workers(), free_port(), secrets.token_hex(8))
    return run_workers(run_command(main, xp.argv), environments, xp.folder)


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
    return port


def supply_dora() -> None:
    """Let `dora run` start workers our way, and check the settings before `--clear` deletes anything."""

    def start_ddp_workers(main: "ExperimentMain", argv: Sequence[str], num_workers: int | None = None) -> None:
        with sentences():
            xp = main.compose(argv)
            main.check(xp)
            sys.exit(start_workers(main, xp, num_workers))

    def check_first(main: "ExperimentMain", argv: Sequence[str]) -> None:
        with sentences():
            main.check(main.compose(argv), is_cleared=True)

    supply_run(start_ddp_workers, check_first)
