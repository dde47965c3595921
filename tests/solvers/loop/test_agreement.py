"""Processes act alike."""

from solfa.config import parse_config
from solfa.solvers.config import SolverConfig
from solfa.solvers.fabric.devices import start_fabric
from solfa.solvers.loop.agreement import agree
from tests.solvers.toy import ToyConfig, toy_values


def test_alone_one_agrees_with_oneself() -> None:
    cfg: SolverConfig = parse_config(ToyConfig, toy_values(), "toy")
    assert agree(start_fabric(cfg), 15, 0, 1) == [15, 0, 1]
