"""Run one experiment as several processes on this machine, which start, stop and fail together.

Dora can start such processes itself (`dora run -d`), but only with GPUs, and it leaves them training when it is
stopped. `supply_dora` replaces that part of Dora with this module.
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
from solfa.errors import ConfigError, SolfaError
from solfa.experiments.dora_adapter import supply_run
from solfa.experiments.exits import sentences
from solfa.experiments.processes.children import GRACE_SECONDS, Family
from solfa.xp.failure import read_failure, record_failure
from solfa.xp.layout import worker_log_path

if TYPE_CHECKING:
    from dora.xp import XP

    from solfa.experiments.compose.experiment_main import ExperimentMain

RUN = "SOLFA_RUN"
"""Names one start of an experiment; all its processes share the value."""
CPU_WORKERS = 2


def default_workers() -> int:
    """One process per GPU; without any, two on the CPU."""
    import torch

    return torch.cuda.device_count() or CPU_WORKERS


def worker_environments(environment: Mapping[str, str], count: int, port: int, run: str) -> list[dict[str, str]]:
    """Tell each process its rank, where to meet the others, and how many threads it may use."""
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
    """Build the command that runs an experiment in one process."""
    module = ["-P", main.package, "--main_module", main.main_module]
    return [sys.executable, "-m", "dora", *module, "run", "--", *argv]


def run_workers(
    command: Sequence[str],
    environments: Sequence[Mapping[str, str]],
    folder: Path,
    grace_seconds: float = GRACE_SECONDS,
) -> int:
    """Run one process per environment to the end and return the exit code; if one fails, the others are stopped.

    The first prints to the terminal, the others into files in the folder.
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
                return _failure(*failed[0], logs, folder)
            if all(code == 0 for code in codes):
                return 0
            time.sleep(0.05)
    return family.exit_code


def _failure(rank: int, code: int, logs: Sequence[Path | None], folder: Path) -> int:
    """Report which process failed, unless it was the first, which reports for itself; return the exit code."""
    if code < 0 or logs[rank] is not None:
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        if sys.platform != "win32" and code == -signal.SIGKILL:
            how += ", as the system does to a process when memory runs out"
        where = f"; its output is in {logs[rank]}" if logs[rank] else ""
        sentence = f"process {rank} of {len(logs)} ended {how}, so the others were stopped{where}"
        sys.stderr.write(f"solfa: {sentence}\n")
        if read_failure(folder) is None:  # a process that was killed could not write it down
            record_failure(folder, SolfaError(sentence))
    return code if code > 0 else 1


def start_workers(main: "ExperimentMain", xp: "XP", ddp_workers: int | None = None) -> int:
    """Run an experiment whose settings were checked as several processes."""
    if ddp_workers is not None and ddp_workers < 1:
        raise ConfigError(f"`ddp_workers`: expected at least 1 process, found {ddp_workers}")
    main.init_xp(xp)
    environments = worker_environments(os.environ, ddp_workers or default_workers(), free_port(), secrets.token_hex(8))
    code = run_workers(run_command(main, xp.argv), environments, xp.folder)
    failure = read_failure(xp.folder)
    if failure is not None and failure.is_refusal:
        main.forget(xp)
    return code


def free_port() -> int:
    """Find a free port."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
    return port


def supply_dora() -> None:
    """Make `dora run` start workers our way, and check the settings before `--clear` deletes anything."""

    def start_ddp_workers(main: "ExperimentMain", argv: Sequence[str], num_workers: int | None = None) -> None:
        with sentences():
            xp = main.compose(argv)
            main.check(xp)
            sys.exit(start_workers(main, xp, num_workers))

    def check_first(main: "ExperimentMain", argv: Sequence[str]) -> None:
        with sentences():
            xp = main.compose(argv)
            main.check(xp, is_cleared=True)
            main.clear_mirror(xp)

    supply_run(start_ddp_workers, check_first)
