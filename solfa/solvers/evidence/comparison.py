"""Compare a trained model with the weights it started from: the same recordings, seeds and prompts, before and after.

start ──► losses one by one, clips ──┐
best  ──► losses one by one, clips ──┴──► differences, intervals, norms per layer, a verdict
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from solfa.data.batching.stage_batches import CropRows, StageBatching, make_stage_loader
from solfa.data.sources.hold_out import recording_of
from solfa.generate.clip import GeneratedClip
from solfa.solvers.evidence.verdict import Estimate, Judged, LossChange, Verdict, compare_losses, judge
from solfa.solvers.evidence.weight_change import LayerChange, Moved, change_per_layer
from solfa.solvers.fabric.devices import gather_objects
from solfa.solvers.loop.stage_loaders import from_the_start
from solfa.solvers.watchers.protocol import Watcher

if TYPE_CHECKING:
    from solfa.solvers.standard import StandardSolver

logger = logging.getLogger(__name__)

MOST_CLIPS = 200
"""How many clips of each side are judged."""


class ClipPair(NamedTuple):
    """A clip drawn by the starting weights, and one by the trained weights, from the same seed and prompt."""

    before: GeneratedClip
    after: GeneratedClip


@dataclass(frozen=True)
class Evidence:
    """What a run made of the weights it started from."""

    verdict: Verdict
    metric: str
    held_out: LossChange | None
    train: LossChange | None
    layers: tuple[LayerChange, ...]
    started_from: Mapping[str, Any]
    epoch: int
    """The epoch whose weights were compared."""
    curve: tuple[float, ...] = ()
    """The held-out loss after each epoch, as the run saw it."""
    clips: tuple[ClipPair, ...] = ()

    def values(self) -> dict[str, Any]:
        """Return everything but the audio, in plain values."""
        return {
            "outcome": self.verdict.outcome,
            "sentence": self.verdict.sentence,
            "metric": self.metric,
            "epoch": self.epoch,
            "started_from": dict(self.started_from),
            "held_out": _loss_values(self.held_out),
            "train": _loss_values(self.train),
            "held_out_per_epoch": list(self.curve),
            "layers": [{"layer": layer.layer, "change": layer.change, "norm": layer.norm} for layer in self.layers],
            "clips": [pair.after.name for pair in self.clips],
        }


class Sides(NamedTuple):
    """How to compute with the weights of either side."""

    before: Callable[[], AbstractContextManager[None]]
    after: Callable[[], AbstractContextManager[None]]
    moved: Callable[[], Iterable[Moved]]
    """How they differ, asked on the side after."""


class _Found(NamedTuple):
    """What was measured with some weights."""

    held_out: list[Judged]
    train: list[Judged]
    clips: list[GeneratedClip]


def compare(solver: "StandardSolver[Any]", sides: Sides, started_from: Mapping[str, Any], epoch: int) -> Evidence:
    """Measure both sides with a solver that has ended its run."""
    logger.info("comparing with the weights that the run started from")
    metric = solver.best_metric() or "loss"
    with sides.before():
        before = _measure(solver, metric)
    with sides.after():
        after = _measure(solver, metric)
        layers = change_per_layer(sides.moved())
    held_out, train = (
        compare_losses([one._replace(after=other.before) for one, other in zip(old, new, strict=True)])
        for old, new in ((before.held_out, after.held_out), (before.train, after.train))
    )
    by_name = {clip.name: clip for clip in before.clips}
    return Evidence(
        verdict=judge(held_out, train),
        metric=metric,
        held_out=held_out,
        train=train,
        layers=tuple(layers),
        started_from=started_from,
        epoch=epoch,
        curve=tuple(float(stages["valid"][metric]) for stages in solver.history if metric in stages.get("valid", {})),
        clips=tuple(ClipPair(by_name[clip.name], clip) for clip in after.clips if clip.name in by_name),
    )


def _measure(solver: "StandardSolver[Any]", metric: str) -> _Found:
    held_out = _losses(solver, _one_by_one(solver, "valid"), metric)
    train = _losses(solver, _one_by_one(solver, "train"), metric)
    return _Found(held_out, train, _clips(solver) if solver.cfg.generate.every is not None else [])


def _one_by_one(solver: "StandardSolver[Any]", stage: Any) -> Any:
    """Load clips one at a time, in an order of their own; a solver with loaders of its own judges their batches."""
    if stage not in solver.sources or solver.cfg.dataset is None:
        return solver.dataloaders.get(stage) if stage == "valid" else None
    batching = solver.batching(solver.cfg.dataset)
    single = StageBatching(
        segment_seconds=batching.valid.segment_seconds,
        batch_size=solver.fabric.world_size,
        num_workers=0,
        shuffle=True,
        random_start=False if isinstance(batching.mode, CropRows) else None,
    )
    return make_stage_loader(
        solver.sources[stage],
        batching.model_copy(update={"valid": single}),
        "valid",
        seed=solver.cfg.seed,
        rank=solver.fabric.global_rank,
        world_size=solver.fabric.world_size,
    )


def _losses(solver: "StandardSolver[Any]", loader: Any, metric: str) -> list[Judged]:
    """Return the mean loss of each recording, over all processes; both fields of it are the same."""
    if loader is None:
        return []
    found: list[tuple[str, float, float]] = []
    most = -(-MOST_CLIPS // solver.fabric.world_size)
    with solver.judging(), from_the_start(loader) as batches:
        for index, batch in enumerate(islice(batches, most)):
            solver.stop_if_asked()
            value = solver.run_step(index, solver.fabric.to_device(batch), {})[metric]
            if not getattr(batch, "is_padding", False):
                name = recording_of(batch.ids[0]) if getattr(batch, "ids", ()) else f"batch {index}"
                found.append((name, float(value), solver.batch_weight(batch)))
    return _by_recording([one for each in gather_objects(solver.fabric, found) for one in each])


def _by_recording(clips: Sequence[tuple[str, float, float]]) -> list[Judged]:
    sums: dict[str, list[float]] = {}
    for recording, value, weight in clips:
        total = sums.setdefault(recording, [0.0, 0.0])
        total[0] += value * weight
        total[1] += weight
    return [
        Judged(name, total / weight, total / weight, weight) for name, (total, weight) in sums.items() if weight > 0
    ]


def _clips(solver: "StandardSolver[Any]") -> list[GeneratedClip]:
    """Draw the clips of the generate stage, and keep them from the run's own watchers."""
    collected = _Collected()
    experiment = solver.experiment
    solver.experiment = experiment._replace(watcher=collected)
    try:
        solver.run_stage("generate")
    finally:
        solver.experiment = experiment
    return collected.drawn


class _Collected(Watcher):
    """Keeps clips instead of showing them."""

    def __init__(self) -> None:
        self.drawn: list[GeneratedClip] = []

    def clips(self, stage: str, epoch: int, clips: Sequence[GeneratedClip]) -> None:
        self.drawn += clips


def _loss_values(change: LossChange | None) -> dict[str, Any] | None:
    if change is None:
        return None

    def interval(estimate: Estimate) -> dict[str, float]:
        return estimate._asdict()

    return {
        "before": interval(change.before),
        "after": interval(change.after),
        "difference": interval(change.difference),
        "num_recordings": change.num_recordings,
    }
