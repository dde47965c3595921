"""Snake and its gradient against their definition, and both kinds from configs."""

import math

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from solfa.nn.activations import Activation, SnakeActivation, snake


def test_snake_is_its_definition_for_each_channel() -> None:
    x, frequency = torch.randn(2, 3, 5), torch.tensor([0.5, 1.0, 4.0])
    y = snake(x, frequency)
    for b, c, n in ((0, 0, 0), (1, 1, 4), (1, 2, 3)):
        value, a = float(x[b, c, n]), float(frequency[c])
        assert float(y[b, c, n]) == pytest.approx(value + math.sin(a * value) ** 2 / a, abs=1e-6)


def test_snake_of_frequency_zero_is_the_identity() -> None:
    x = torch.randn(1, 1, 9)
    assert torch.equal(snake(x, torch.zeros(1)), x)


def test_the_gradient_of_snake_is_that_of_its_definition() -> None:
    module = SnakeActivation(3).double()
    with torch.no_grad():
        module.frequency.copy_(torch.tensor([0.5, 1.0, 4.0]))
    x = torch.randn(2, 3, 5, dtype=torch.float64)
    module(x).sum().backward()
    a = module.frequency.detach()[:, None]
    expected = (x * torch.sin(2 * a * x) / a - (torch.sin(a * x) / a) ** 2).sum(dim=(0, 2))
    torch.testing.assert_close(module.frequency.grad, expected, rtol=1e-6, atol=1e-6)


def test_a_config_builds_the_activation_that_it_names() -> None:
    parse = TypeAdapter(Activation).validate_python
    x = torch.randn(2, 4, 5)
    built = parse({"kind": "snake"}).build(4)
    assert [parameter.shape for parameter in built.parameters()] == [(4,)]
    torch.testing.assert_close(built(x), x + x.sin().square())
    torch.testing.assert_close(parse({"kind": "elu", "alpha": 0.5}).build(4)(x), x.where(x > 0, 0.5 * x.expm1()))
    torch.testing.assert_close(parse({"kind": "elu"}).build(4)(x), x.where(x > 0, x.expm1()))
    with pytest.raises(ValidationError, match="relu"):
        parse({"kind": "relu"})
