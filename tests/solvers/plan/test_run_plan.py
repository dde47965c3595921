"""A plan says what a run takes, refuses what cannot fit, and warns about what would never end."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.solvers.config import SolverConfig
from solfa.solvers.plan.outline import Outline
from solfa.solvers.plan.run_plan import RunPlan, measure_speed

MB = 10**6


@pytest.fixture
def plan() -> RunPlan:
    """A million parameters (20 MB with everything), rows that keep 10 MB, and 100 MB of memory."""
    values = {
        "solver": "lm",
        "dataset": {"batch_size": 4, "segment_seconds": 2.5},
        "optim": {"epochs": 3, "updates_per_epoch": 20, "ema": {}},
    }
    with torch.device("meta"):
        network = nn.Linear(1000, 1000, bias=False)
    return RunPlan(
        cfg=parse_config(SolverConfig, values, "test"),
        signature="0123abcd",
        outline=Outline({"model": network}, kept_bytes=10.0 * MB, row_operations=1e6, smaller="use model=less"),
        device="cpu",
        device_name="cpu, 2 threads",
        num_processes=1,
        num_here=1,
        capacity=100 * MB,
        speed=1e6,
        clips={"train": (12, 3600.0), "valid": (1, 30.0)},
    )


def test_the_facts_are_all_there(plan: RunPlan) -> None:
    facts = dict(plan.facts())
    assert "lm" in facts["solver"] and "0123abcd" in facts["solver"]
    assert "2 threads" in facts["device"] and "32-true" in facts["device"]
    assert "1,000,000" in facts["parameters"]
    assert facts["train"].split(", ") == ["12 clips", "1 h 00 min"] and "1 clip," in facts["valid"]
    assert re.search("3 epochs.*20 updates.*4 rows.*2.5 s", facts["updates"])
    assert re.search("^20 MB .*weights 4 MB.*adamw 8 MB.*40 MB of activations.*100 MB$", facts["memory"])
    assert "4 min 00 s" in facts["time"]
    plan.refuse()
    assert plan.warnings() == []


def test_what_cannot_fit_is_refused_with_what_to_change(plan: RunPlan) -> None:
    with pytest.raises(ConfigError, match=r"^model: .*20 MB.*19 MB.*model=less"):
        replace(plan, capacity=19 * MB).refuse()
    with pytest.raises(ConfigError, match=r"batch_size: .*40 MB.*batch_size=2 .*accumulate=2.*model=less"):
        replace(plan, capacity=50 * MB).refuse()
    with pytest.raises(ConfigError, match=r"segment_seconds lower"):
        replace(plan, capacity=25 * MB).refuse()


def test_processes_share_the_memory_of_a_machine_and_the_rows_of_a_batch(plan: RunPlan) -> None:
    two = replace(plan, num_processes=2, num_here=2)
    assert (two.rows, two.needs.weights, two.needs.activations) == (2, 8 * MB, 40 * MB)
    assert "2 processes" in dict(two.facts())["device"]


def test_a_run_of_many_days_on_a_cpu_is_a_warning(plan: RunPlan) -> None:
    (sentence,) = replace(plan, speed=1e3).warnings()
    assert re.search("60 updates.*66 h 40 min.*model=less.*optim.epochs", sentence)
    assert replace(plan, speed=1e3, device="cuda").warnings() == []


def test_a_plan_may_know_less(plan: RunPlan) -> None:
    """A solver of one's own: no rows, no costs."""
    cfg = plan.cfg.model_copy(update={"dataset": None})
    facts = dict(replace(plan, cfg=cfg, outline=Outline(plan.outline.networks), clips={}, speed=0.0).facts())
    assert "plus activations" in facts["memory"] and "time" not in facts and "train" not in facts


def test_speed_is_measured() -> None:
    assert measure_speed(32, 2) > 0
