"""The settings that all solvers share agree with one another."""

from typing import Any

import pytest

from solfa.config import parse_config
from solfa.solvers.tasks.lm import LMConfig


@pytest.mark.parametrize(("stage", "num_clips"), [({}, 2), ({"num_samples": 7}, 7), ({"num_samples": None}, 2)])
def test_audiocraft_s_number_of_samples_to_generate_is_the_number_of_clips(stage: dict[str, Any], num_clips: int) -> None:
    values = {
        "solver": "lm",
        "model": {"dim": 8, "num_layers": 1, "num_heads": 1, "ffn_dim": 8},
        "dataset": {"batch_size": 2, "generate": stage},
        "optim": {"epochs": 1},
        "generate": {"num_clips": 2},
    }
    assert parse_config(LMConfig, values, "lm").generate.num_clips == num_clips
