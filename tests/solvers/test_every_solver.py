"""What is promised of every solver: whatever the number of processes, each clip is judged once and nothing else is."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from solfa.data.batching.stage_batches import Batching, make_stage_loader
from solfa.generate.request import ClipRequest
from solfa.solvers.loop.averages import Averages, Metrics
from solfa.solvers.standard import StandardSolver
from tests.solvers.every_solver import KINDS, NUM_CLIPS, Data, build_solver, close_enough, compute_in_double, make_data

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    return make_data(tmp_path_factory.mktemp("data"))


@torch.no_grad()
def judge(solver: StandardSolver[Any], batch_size: int, world_size: int) -> tuple[Metrics, Tensor]:
    """Judge as so many processes together do: give the means, and how often a codec chose each code."""
    solver.model.eval()  # type: ignore[attr-defined]
    source, batching = solver.sources["valid"], Batching(batch_size=batch_size, segment_seconds=row_seconds(solver))
    states, counts = [], torch.zeros((), dtype=torch.int64)
    for rank in range(world_size):
        loader = make_stage_loader(source, batching, "valid", rank=rank, world_size=world_size)
        solver.dataloaders["valid"], solver._counts = loader, []  # type: ignore[attr-defined]
        states.append(solver._all_batches("valid").state())
        counts = sum(solver._counts, counts)  # type: ignore[attr-defined]
    return Averages.of(states).means(), counts


def row_seconds(solver: StandardSolver[Any]) -> float | None:
    return None if solver.cfg.dataset is None else solver.cfg.dataset.segment_seconds


@pytest.mark.parametrize(
    ("clips", "batches"), [([5], [2]), pytest.param([1, 3], [2, 3, 4], marks=pytest.mark.slow)], ids=["one", "more"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_however_clips_are_dealt_to_processes_they_are_judged_as_by_one(
    data: Data, tmp_path: Path, kind: str, clips: list[int], batches: list[int]
) -> None:
    padded = 0
    for num_clips in clips:
        solver = build_solver(kind, data, tmp_path / str(num_clips), num_clips)
        compute_in_double(solver)
        for batch_size in batches:
            alone, chosen_alone = judge(solver, batch_size, 1)
            assert alone and all(map(math.isfinite, alone.values()))
            for world_size in range(2, batch_size + 1):
                together, chosen = judge(solver, batch_size, world_size)
                where = f"{num_clips} clips in batches of {batch_size} on {world_size} processes"
                allowed = close_enough(batch_size)
                assert together == pytest.approx(alone, rel=allowed, abs=allowed), where
                assert torch.equal(chosen, chosen_alone), where
                padded += 0 < num_clips % batch_size < world_size
    assert padded >= (7 if len(clips) > 1 else 1), "processes without clips are what this is about"


@pytest.mark.parametrize("kind", KINDS[:4])
def test_clips_are_asked_for_alike_in_every_epoch(
    data: Data, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    solver: Any = build_solver(kind, data, tmp_path, 5)
    asked: list[list[ClipRequest]] = []
    monkeypatch.setattr(solver, "generator", lambda: None)  # what is asked for is enough; nothing is drawn
    monkeypatch.setattr(solver, "draw_clips", lambda generator, requests: asked.append(list(requests)) or [])
    for epoch in (1, 2):
        solver.epoch = epoch
        asked.append(solver.judged_requests(3, 0.05))
        if kind != "sashimi":  # which generates what is judged
            solver.generate()
    half = len(asked) // 2
    assert asked[:half] == asked[half:]
    assert all(len({request.seed for request in requests}) == len(requests) > 1 for requests in asked)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_in_mixed_precision_it_trains_and_is_judged(data: Data, tmp_path: Path, kind: str) -> None:
    settings = {"precision": "bf16-mixed", "optim__updates_per_epoch": 3, "generate__every": None}
    solver = build_solver(kind, data, tmp_path, 2, **settings)
    before = [parameter.detach().clone() for parameter in solver.model.parameters()]  # type: ignore[attr-defined]
    solver.run()
    after = [parameter.detach() for parameter in solver.model.parameters()]  # type: ignore[attr-defined]
    assert any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert all(one.dtype == torch.float32 and one.isfinite().all() for one in after if one.requires_grad)
    assert all(map(math.isfinite, solver.history[-1]["valid"].values()))


@pytest.mark.slow
def test_two_processes_of_which_one_goes_without_clips_train_and_judge_as_one_does(data: Data, tmp_path: Path) -> None:
    settings = {"data": [str(path) for path in (data.songs, *data.world, data.coarse, data.fine, data.latents)]}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "tests.solvers.every_solver_driver", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    for kind in KINDS:
        for num_clips in NUM_CLIPS[kind]:
            found = json.loads((tmp_path / f"{kind}-{num_clips}" / "judged.json").read_text())
            assert found["padded"] == [0, 1]
            # Perplexities are no means: their relative error is what the absolute one of an entropy is.
            allowed = pytest.approx(found["whole"], rel=close_enough(2), abs=close_enough(2))
            assert found["dealt"] == allowed, (kind, num_clips)
