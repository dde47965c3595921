"""Which settings tell experiments apart."""

import pytest
from dora.hydra import _compare_config
from omegaconf import OmegaConf

from solfa.experiments.compose.signature import difference, is_excluded

BASE = {"a": 1, "b": {"c": [1, 2], "d": {"e": None, "f": "x"}}, "g": 2.5}


@pytest.mark.parametrize(
    "other",
    [
        BASE,
        {**BASE, "a": 2, "new": {"x": 1}},
        {**BASE, "b": {"c": [1, 3], "d": {"e": 4, "f": "x"}, "more": 1}},
        {"g": 2, "a": 1, "b": {"d": {"e": {"deep": 1}, "f": "y"}, "c": [1, 2]}},
    ],
)
def test_differences_are_those_that_dora_finds(other):
    theirs = [
        (".".join(found.path), OmegaConf.to_container(value) if OmegaConf.is_config(value) else value)
        for found in _compare_config(OmegaConf.create(BASE), OmegaConf.create(other), [])
        for value in [found.other_value]
    ]
    assert difference(BASE, other) == theirs


def test_a_group_that_became_one_value_is_a_difference():
    assert difference({"ema": {"decay": 0.9}}, {"ema": None}) == [("ema", None)]


@pytest.mark.parametrize(
    ("way", "excluded"),
    [
        ("device", True),
        ("dataset.num_workers", True),
        ("logging.wandb.project", True),
        ("optim.device", False),
        ("dataset", False),
        ("loggings", False),
    ],
)
def test_settings_are_excluded_by_their_name_or_that_of_their_group(way, excluded):
    assert is_excluded(way.split("."), ["device", "*num_workers", "logging"]) is excluded
