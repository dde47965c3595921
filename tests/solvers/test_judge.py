"""Every solver measures what it generates beside its loss, and says so before training if it cannot."""

import math
from pathlib import Path
from typing import Any

import pytest

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.evaluate.clip_judge import ClipJudge
from solfa.solvers.config import EvaluateConfig
from solfa.solvers.standard import StandardSolver
from tests.solvers.every_solver import Data, build_solver, make_data

pytestmark = pytest.mark.slow

KINDS = ("flow", "lm", "mot", "sashimi", "compression rvq")
RUN_FOR = {"metrics": ["kad", "bits"], "embedder": "mel", "num_clips": 4, "seconds": 0.05}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return make_data(tmp_path_factory.mktemp("data"))


def judged_solver(kind: str, data: Data, folder: Path, **changes: Any) -> StandardSolver[Any]:
    """A solver as an experiment builds it: with a judge, and settings for it."""
    solver = build_solver(kind, data, folder, 4)
    evaluate = parse_config(EvaluateConfig, {**RUN_FOR, **changes}, "evaluate")
    solver.cfg = solver.cfg.model_copy(update={"evaluate": evaluate})
    solver.experiment = solver.experiment._replace(judge=ClipJudge())
    return solver


@pytest.mark.parametrize("kind", KINDS)
def test_distances_stand_beside_the_loss(data: Data, tmp_path: Path, kind: str) -> None:
    # A codec has no bits of its own here, and the latents of the flow's data have no codec to be heard with.
    metrics = {"compression rvq": ["kad"], "flow": ["bits"]}.get(kind, ["kad", "bits"])
    solver = judged_solver(kind, data, tmp_path, metrics=metrics)
    found = solver.run_stage("evaluate")
    names = {"kad": "kad", "bits": "bits_per_second"}
    assert all(math.isfinite(found[names[metric]]) for metric in metrics)
    assert "kad" not in metrics or found["kad_low"] <= found["kad_high"]
    assert solver.run_stage("evaluate") == found, "the same weights are judged the same"


def test_bits_are_those_that_the_loss_is_made_of(data: Data, tmp_path: Path) -> None:
    codes: Any = judged_solver("lm", data, tmp_path / "lm", metrics=["bits"])
    means = codes.run_stage("evaluate")
    nats = sum(means[f"ce_q{k + 1}"] for k in range(codes.array.width))
    assert means["bits_per_second"] == pytest.approx(nats / math.log(2) * codes.array.frame_rate, rel=1e-6)
    waves: Any = judged_solver("sashimi", data, tmp_path / "sashimi", metrics=["bits"])
    means = waves.run_stage("evaluate")
    assert means["bits_per_second"] == means["bits_per_sample"] * waves.codec.sample_rate


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metrics": ["kld"]}, "tagger"),
        ({"num_clips": 2, "embedder": "nothing"}, "embedder"),
        ({"judge": None}, "judge"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_training(
    data: Data, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    settings = {name: value for name, value in changes.items() if name != "judge"}
    solver = judged_solver("lm", data, tmp_path, **settings)
    if "judge" in changes:
        solver.experiment = solver.experiment._replace(judge=None)
    with pytest.raises(ConfigError, match=words):
        solver.run()
    assert solver.history == [] and solver.num_updates == 0
