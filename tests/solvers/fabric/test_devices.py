"""A run finds its device and the other processes, and says so when it cannot have what was asked for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from solfa.config import parse_config
from solfa.environment.ranks import Rank
from solfa.errors import ConfigError
from solfa.solvers.config import SolverConfig
from solfa.solvers.fabric.devices import gather_objects, start_fabric
from solfa.solvers.fabric.launch import Launched
from tests.solvers.toy import ToyConfig, toy_values

ROOT = Path(__file__).parents[3]
here = pytest.mark.skipif(torch.cuda.is_available() or torch.backends.mps.is_available(), reason="there is a GPU")


def cfg(**changes: Any) -> SolverConfig:
    return parse_config(ToyConfig, toy_values(**changes), "toy")


@pytest.fixture(scope="module")
def reports() -> list[dict[str, Any]]:
    """What each of two processes saw."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-m", "tests.solvers.rank_driver"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    return sorted(found, key=lambda report: int(report["rank"]))


@pytest.mark.slow
def test_processes_find_each_other_through_the_variables_of_their_launcher(reports: list[dict[str, Any]]) -> None:
    assert [(report["rank"], report["world_size"]) for report in reports] == [(0, 2), (1, 2)]


@pytest.mark.slow
def test_every_process_gets_the_values_of_all_in_the_order_of_their_ranks(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        assert report["gathered"] == [{"rank": 0, "ids": []}, {"rank": 1, "ids": ["a"]}]


@pytest.mark.slow
def test_every_process_agrees_on_the_largest_of_each_wish(reports: list[dict[str, Any]]) -> None:
    assert [report["agreed"] for report in reports] == [[15, 1, 0]] * 2


@pytest.mark.slow
def test_means_over_processes_are_weighted(reports: list[dict[str, Any]]) -> None:
    for report in reports:
        assert report["means"] == {"loss": pytest.approx((10 * 1 + 20 * 2) / 3), "only0": 5.0, "only1": 5.0}


@here
def test_without_a_gpu_a_gpu_is_refused() -> None:
    for device in ("cuda", "mps"):
        with pytest.raises(ConfigError, match=f"device={device}"):
            start_fabric(cfg(device=device))


def test_a_process_alone_needs_no_launcher() -> None:
    fabric = start_fabric(cfg())
    assert (fabric.global_rank, fabric.world_size, fabric.device.type) == (0, 1, "cpu")
    assert gather_objects(fabric, {"a": 1}) == [{"a": 1}]


def test_sharding_over_gpus_is_refused_on_a_cpu() -> None:
    with pytest.raises(ConfigError, match=r"^strategy: fsdp .*cpu.*ddp or auto"):
        start_fabric(cfg(strategy="fsdp"))


def test_processes_that_cannot_be_spread_evenly_over_the_nodes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"^num_nodes: 1 processes .*2 nodes$"):
        start_fabric(cfg(num_nodes=2))


def test_the_node_of_a_process_follows_from_its_rank() -> None:
    nodes = [Launched(Rank(rank, 6, rank % 3, 3), {}).node_rank() for rank in range(6)]
    assert nodes == [0, 0, 0, 1, 1, 1]


def test_the_meeting_place_is_the_launchers_or_this_machine() -> None:
    alone, led = Launched(Rank(), {}), Launched(Rank(), {"MASTER_ADDR": "node7", "MASTER_PORT": "4321"})
    assert (alone.main_address, alone.main_port) == ("127.0.0.1", 29500)
    assert (led.main_address, led.main_port) == ("node7", 4321)
    with pytest.raises(ConfigError, match=r"^MASTER_PORT: .*found 'x'$"):
        _ = Launched(Rank(), {"MASTER_PORT": "x"}).main_port
