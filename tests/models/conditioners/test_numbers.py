"""Numbers: clamped, told apart, and absent when there is none."""

import logging
import math

import pytest
import torch

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.conditioners.numbers import NumberConditioner, NumberConfig
from solfa.models.conditioners.protocol import Conditioner

FEATURES = [{"kind": "linear"}, {"kind": "fourier", "num_frequencies": 3}]


def make(**settings: object) -> NumberConditioner:
    torch.manual_seed(0)
    values = {"kind": "number", "source": "bpm", "min": 40, "max": 200, **settings}
    return parse_config(NumberConfig, values, "test").build(6)


def embed(conditioner: NumberConditioner, values: list) -> torch.Tensor:
    return conditioner.embed(conditioner.tokenize(values)).embedding[:, 0]


@pytest.mark.parametrize("features", FEATURES)
def test_values_are_clamped_and_told_apart(features):
    conditioner = make(features=features)
    assert isinstance(conditioner, Conditioner)
    low, middle, high, below, above = embed(conditioner, [40, 120.0, 200, -7, 1e9])
    assert torch.allclose(low, below)
    assert torch.allclose(high, above)
    for one, other in ((low, middle), (middle, high), (low, high)):
        assert not torch.allclose(one, other)


def test_linear_features_are_a_line():
    conditioner = make(features={"kind": "linear"})
    low, middle, high = embed(conditioner, [40, 120, 200])
    assert torch.allclose(middle, (low + high) / 2, atol=1e-6)
    assert torch.allclose(low, conditioner.output_proj.bias)


def test_fourier_features_match_their_definition():
    features = make(features=FEATURES[1]).config.features
    x = 0.3
    turns = [math.pi * x * k for k in (1, 2, 3)]
    expected = [x, *map(math.sin, turns), *map(math.cos, turns)]
    assert torch.allclose(features(torch.tensor([x]))[0], torch.tensor(expected), atol=1e-6)
    assert features.width == len(expected)


def test_missing_numbers_are_absent_and_text_that_is_a_number_counts(caplog):
    conditioner = make()
    torch.nn.init.ones_(conditioner.output_proj.bias)
    values = [None, math.nan, "", "120", 120, "fast", [120], math.inf]
    with caplog.at_level(logging.WARNING):
        found = conditioner.embed(conditioner.tokenize(values))
        conditioner.tokenize(values)
    assert found.mask[:, 0].tolist() == [False, False, False, True, True, False, False, False]
    assert found.embedding[~found.mask].eq(0).all()
    assert torch.allclose(found.embedding[3], found.embedding[4])
    for record, value in zip(caplog.records, values[5:], strict=True):
        assert record.message.startswith("bpm: ") and f"found {value!r}" in record.message


def test_batch_without_numbers_gives_zero_gradients():
    conditioner = make()
    embed(conditioner, [None]).sum().backward()
    assert conditioner.output_proj.weight.grad.eq(0).all()
    assert embed(conditioner, []).shape == (0, 6)


def test_empty_range_is_refused():
    with pytest.raises(ConfigError, match=r"min .*max, found 200 and 200"):
        make(min=200)
