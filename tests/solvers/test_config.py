"""The settings that all solvers share agree with one another."""

from typing import Any

import pytest

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.solvers.config import OpenSolverConfig
from solfa.solvers.tasks.lm import LMConfig


@pytest.mark.parametrize(("stage", "num_clips"), [({}, 2), ({"num_samples": 7}, 7), ({"num_samples": None}, 2)])
def test_the_number_of_samples_to_generate_is_the_number_of_clips(stage: dict[str, Any], num_clips: int) -> None:
    values = {
        "solver": "lm",
        "model": {"dim": 8, "num_layers": 1, "num_heads": 1, "ffn_dim": 8},
        "dataset": {"batch_size": 2, "generate": stage},
        "optim": {"epochs": 1},
        "generate": {"num_clips": 2},
    }
    assert parse_config(LMConfig, values, "lm").generate.num_clips == num_clips


def test_keys_without_a_model_are_read_like_attributes_items_and_arguments() -> None:
    values = {"solver": "mine:Solver", "optim": {"epochs": 1}, "net": {"dim": 4, "layers": [{"size": 3}]}, "gain": 2}
    cfg = parse_config(OpenSolverConfig, values, "mine")
    assert cfg.model_extra == {"net": values["net"], "gain": 2}
    net = cfg.model_extra["net"]
    assert (net.dim, net["dim"], dict(**net)["dim"], net.layers[0].size) == (4, 4, 4, 3)
    assert parse_config(OpenSolverConfig, cfg.model_dump(mode="json"), "stored") == cfg
    with pytest.raises(AttributeError, match="'dmi', did you mean 'dim'"):
        _ = net.dmi


def test_a_key_that_is_almost_a_common_one_is_refused_with_what_to_declare() -> None:
    values = {"solver": "mine:Solver", "optim": {"epochs": 1}, "evalute": {"every": 1}}
    with pytest.raises(ConfigError, match=r"evalute: .*'evaluate'.*class MyConfig\(SolverConfig\).*Config = MyConfig"):
        parse_config(OpenSolverConfig, values, "mine")
