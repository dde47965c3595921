"""Whatever order tests run in, and whichever of them makes what they share, they draw the same numbers."""

import random

import numpy as np
import pytest
import torch

from tests.conftest import seed_all

Numbers = tuple[float, float, float]


def draw() -> Numbers:
    return random.random(), float(np.random.random()), float(torch.rand(()))


@pytest.fixture(scope="module")
def shared() -> Numbers:
    return draw()


@pytest.fixture(scope="module")
def also_shared(shared: Numbers) -> Numbers:
    return draw()


@pytest.fixture
def own() -> Numbers:
    return draw()


@pytest.mark.parametrize("attempt", range(2))
def test_numbers_are_those_of_the_seed(
    attempt: int, own: Numbers, also_shared: Numbers, shared: Numbers, request: pytest.FixtureRequest
) -> None:
    seed_all(request.config)
    first, second = draw(), draw()
    assert shared == also_shared == first
    assert own == first or request.config.pluginmanager.hasplugin("randomly"), "which seeds tests by itself"
    assert second != first
