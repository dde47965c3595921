"""One tiny run of every solver, each with some clips held out to be judged."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.quantized import WaveformCodec
from solfa.solvers.fabric.wrappers import unwrapped
from solfa.solvers.standard import StandardSolver
from solfa.solvers.tasks.compression import CompressionSolver
from solfa.solvers.tasks.mot import MoTSolver
from solfa.solvers.tasks.sashimi import SashimiSolver
from tests.solvers import mot_runs
from tests.solvers.tasks import test_compression, test_flow, test_lm, test_sashimi
from tests.solvers.waveforms import sashimi_values, store_tones

KINDS = ("flow", "lm", "mot", "sashimi", "sashimi dml in pieces", "compression rvq", "compression gaussian")
NUM_CLIPS = {kind: (1, 5) if kind in ("lm", "compression rvq") else (5,) for kind in KINDS}
"""How many clips two processes judge: one process then has none in the last step, or never any."""
MOST_SAMPLES = 80
"""The longest row of all of them."""


class Data(NamedTuple):
    """What they are trained on."""

    songs: Path
    world: mot_runs.World
    coarse: Path
    fine: Path
    latents: Path


def make_data(folder: Path) -> Data:
    """Store clips for each of them."""
    rate = test_sashimi.RATE
    coarse, fine = (WaveformCodec(MulawOptions(bits=bits, sample_rate=rate)) for bits in (test_sashimi.BITS, 16))
    return Data(
        test_lm.store_songs(folder / "songs.solfa"),
        mot_runs.make_world(folder / "world"),
        store_tones(folder / "coarse.solfa", coarse),
        store_tones(folder / "fine.solfa", fine),
        test_flow.store_latents(folder / "latents.solfa"),
    )


def build_solver(kind: str, data: Data, folder: Path, num_held_out: int, **settings: Any) -> StandardSolver[Any]:
    """Make a solver that is judged by so many clips, two at a time."""
    changes: dict[str, Any] = {
        "dset__hold_out": {"clips": num_held_out},
        "dataset__valid": {"batch_size": 2},
        "optim__epochs": 1,
        **settings,
    }
    builders: dict[str, Callable[[], StandardSolver[Any]]] = {
        "flow": lambda: test_flow.solver_of(folder, test_flow.flow_values(data.latents, **changes)),
        "lm": lambda: test_lm.solver_of(folder, test_lm.lm_values(data.songs, conditioner=test_lm.LABELS, **changes)),
        "mot": lambda: mot_runs.solver_of(folder, mot_runs.mot_values(data.world, **changes)),
        "sashimi": lambda: _waveforms(data, folder, changes),
        "sashimi dml in pieces": lambda: _waveforms(
            data, folder, changes | {"model__output_head": "dml", "truncate_seconds": 0.05}
        ),
        "compression rvq": lambda: _codec(data, folder, changes),
        "compression gaussian": lambda: _codec(data, folder, changes, bottleneck={"kind": "gaussian"}),
    }
    return builders[kind]()


def _waveforms(data: Data, folder: Path, changes: dict[str, Any]) -> SashimiSolver:
    solver = test_sashimi.solver_of(folder, sashimi_values(data.coarse, **changes))
    # It begins with the same distribution for every sample, so that all clips would be judged alike.
    with torch.no_grad():
        solver.network.projection.weight.mul_(20)
    return solver


def _codec(data: Data, folder: Path, changes: dict[str, Any], **model: Any) -> CompressionSolver:
    stft = {"kind": "stft", "windows": [32]}
    own = {"losses__stft": stft, "weights__stft": 1.0, "dataset__segment_seconds": MOST_SAMPLES / test_compression.RATE}
    parts = {f"model__{name}": part for name, part in model.items()}
    return test_compression.solver_of(folder, test_compression.values_for(data.fine, **changes, **own, **parts))


def compute_in_double(solver: StandardSolver[Any]) -> None:
    """Let networks compute in float64, where batches of other sizes are the same numbers for all that is told of them.

    A codec, too, then chooses the same codes: in float32 it might choose otherwise between two that are equally near.
    """
    solver.model = unwrapped(solver.model).double()  # type: ignore[attr-defined]
    if isinstance(solver, MoTSolver):
        solver.network.base.model.double()  # which keeps its precision by itself
    if isinstance(solver, CompressionSolver):
        to_audio = solver._waveform

        def precisely(codes: Tensor, mask: Tensor) -> Tensor:
            return to_audio(codes, mask).double()

        solver._waveform = precisely  # type: ignore[method-assign]


def close_enough(batch_size: int) -> float:
    """Bound how far a metric may be from itself when its batches are cut otherwise, as a share and as a difference.

    What networks give in float64 is rounded to float32, by 2^-24 of it, and summed over the n = rows * samples of a
    batch in at most n additions that each err by 2^-24 of the sum: n * 2^-24 of a mean of what has one sign, on either
    side of a comparison. What has both signs is at most 1, or a ratio of at most 100 decibels, one a row.
    """
    return 2.0**-23 * max(batch_size * MOST_SAMPLES, batch_size * 100)
