"""Memory is added up from shapes."""

import pytest
import torch
from torch import nn

from solfa.solvers.optim.ema import EmaConfig
from solfa.solvers.optim.optimizer import SGD, OptimConfig
from solfa.solvers.plan.outline import Outline, memory_needs

OPTIM = OptimConfig(epochs=1, ema=EmaConfig())


@pytest.fixture
def outline() -> Outline:
    """A network of 6 trained numbers and 4 frozen ones, and one of 3 that is not averaged."""
    with torch.device("meta"):
        model = nn.ModuleList([nn.Linear(2, 3, bias=False), nn.Linear(2, 2, bias=False).requires_grad_(False)])
        judge = nn.Linear(3, 1, bias=False)
    return Outline({"model": model, "judge": judge}, kept_bytes=100.0)


def test_parameters_are_counted_without_numbers(outline: Outline) -> None:
    assert (outline.parameters, outline.trained) == (13, 9)
    shared = Outline({"one": outline.networks["model"], "two": outline.networks["model"]})
    assert shared.parameters == 10


def test_each_part_has_its_share(outline: Outline) -> None:
    needs = memory_needs(outline, OPTIM, "32-true", 3, 1, is_sharded=False)
    assert needs == (4 * 13, 4 * 9, 2 * 4 * 9, 4 * 6, 300)
    assert needs.lasting == 4 * (13 + 9 + 18 + 6)


def test_settings_change_what_is_needed(outline: Outline) -> None:
    plain = OptimConfig(epochs=1, optimizer=SGD(momentum=0.0))
    assert memory_needs(outline, plain, "32-true", 1, 1, is_sharded=False) == (52, 36, 0, 0, 100)
    assert memory_needs(outline, OPTIM, "bf16-true", 1, 1, is_sharded=False) == (26, 18, 36, 24, 50)
    assert memory_needs(outline, OPTIM, "32-true", 1, 2, is_sharded=False).gradients == 72
    assert memory_needs(outline, OPTIM, "32-true", 1, 2, is_sharded=True) == (26, 18, 36, 12, 100)
