"""Snake against its definition, and both kinds from configs."""

import math

import pytest
import torch
from pydantic import TypeAdapter
from torch import nn

from solfa.nn.activations import Activation, Elu, Snake, SnakeActivation, snake


def test_snake_is_its_definition_for_each_channel() -> None:
    x, frequency = torch.randn(2, 3, 5), torch.tensor([0.5, 1.0, 4.0])
    y = snake(x, frequency)
    for b, c, n in ((0, 0, 0), (1, 1, 4), (1, 2, 3)):
        value, a = float(x[b, c, n]), float(frequency[c])
        assert float(y[b, c, n]) == pytest.approx(value + math.sin(a * value) ** 2 / a, abs=1e-6)


def test_snake_of_frequency_zero_is_the_identity() -> None:
    x = torch.randn(1, 1, 9)
    assert torch.equal(snake(x, torch.zeros(1)), x)


def test_snake_learns_its_frequencies() -> None:
    module = SnakeActivation(3)
    module(torch.randn(2, 3, 5)).sum().backward()
    assert module.frequency.grad is not None and (module.frequency.grad != 0).all()


def test_configs_build_their_modules() -> None:
    parse = TypeAdapter(Activation).validate_python
    assert isinstance(parse({"kind": "snake"}).build(4), SnakeActivation)
    elu = parse({"kind": "elu", "alpha": 0.5}).build(4)
    assert isinstance(elu, nn.ELU) and float(elu(torch.tensor([-50.0]))) == pytest.approx(-0.5)
    assert (Elu().kind, Snake().kind) == ("elu", "snake")
