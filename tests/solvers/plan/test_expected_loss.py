import math
from pathlib import Path

import numpy as np
import pytest
import torch

from solfa.models.flow.config import StableAudio3Config
from solfa.solvers.plan.expected_loss import flow_bars, uniform_guess
from tests.solvers.tasks import test_flow, test_lm


def test_a_network_that_cannot_tell_codes_apart_has_the_loss_of_a_blind_guess(tmp_path: Path) -> None:
    songs = test_lm.store_songs(tmp_path / "songs.solfa")
    solver = test_lm.solver_of(tmp_path / "xp", test_lm.lm_values(songs))
    with torch.no_grad():
        solver.network.lm.heads.weight.zero_()
    (expected,) = solver.expected_losses()
    assert expected == uniform_guess(16)
    # The logits are zero, so that each code costs log 16 rounded to float32, and so do means of at most 64 of them.
    assert solver.run_stage("valid")["loss"] == pytest.approx(math.log(16), rel=64 * 2**-23)


@pytest.mark.parametrize(("objective", "zero", "least"), [("rectified_flow", 2.0, math.pi / 2), ("v", 1.0, 1.0)])
def test_the_bars_of_a_flow_model_are_the_closed_forms(objective: str, zero: float, least: float) -> None:
    config = StableAudio3Config(**{**test_flow.MODEL, "objective": objective})  # type: ignore[arg-type]
    found = [bar.value for bar in flow_bars(config, 1.0)]
    # The midpoint rule errs by h^2 / 24 times the largest second derivative, which is below 100 here.
    assert found == pytest.approx([zero, least], abs=100 / 24 * 1e-8)


def test_the_least_loss_is_that_of_the_best_linear_prediction_at_the_times_of_the_model() -> None:
    """Definition: the variance of the target that the point does not explain, at each time."""
    config = StableAudio3Config(**{**test_flow.MODEL, "times": {"kind": "logit_normal"}})  # type: ignore[arg-type]
    times = 1 / (1 + np.exp(-torch.special.ndtri((torch.arange(10_000) + 0.5).double() / 10_000).numpy()))
    covariance = [np.array([[1 - t, t], [-1.0, 1.0]]) for t in times[::100]]
    slowly = []
    for matrix in covariance:
        (point, both), (_, target) = matrix @ matrix.T
        slowly.append(target - both**2 / point)
    closed = 1 / ((1 - times[::100]) ** 2 + times[::100] ** 2)
    assert np.allclose(slowly, closed, rtol=1e-12)
    assert flow_bars(config, 1.0)[1].value == pytest.approx(np.mean(1 / ((1 - times) ** 2 + times**2)), rel=1e-6)
