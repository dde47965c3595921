"""Captioned codes, and runs that teach them to a tiny text model."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from solfa.config import parse_config
from solfa.generate.clip import GeneratedClip
from solfa.generate.request import ClipRequest
from solfa.generate.text_model import TextModel
from solfa.solvers.experiment import Experiment
from solfa.solvers.tasks.mot import MoTSolver, MoTSolverConfig
from solfa.solvers.watchers.protocol import Watcher, Watchers
from solfa.store.array_dataset import append_arrays
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec, DatasetInfo
from solfa.store.shard_writer import Outcome
from tests.models.mot.tiny_mot import write_base, write_donor
from tests.solvers.best_weights import load_best
from tests.solvers.toy import changed

K, V, RATE = 2, 16, 1000
CODEC = f"mulaw:bits=4,sample_rate={RATE},num_channels={K}"
ARRAY = ArraySpec(
    kind="codes", width=K, codebook_size=V, sample_rate=RATE, num_channels=K, hop_length=1, dtype="uint16"
)

Clip = tuple[str | None, NDArray[Any]]
"""A caption and the codes that it stands for, [T, K]."""


class World(NamedTuple):
    """What a run is made of, in directories."""

    base: Path
    """A Llama with a large vocabulary, so that whatever holds it is large."""
    donor: Path
    """A MusicGen of the same codes."""
    songs: Path


def make_world(folder: Path) -> World:
    """Write a base and a donor as transformers does, and store sixteen captioned clips."""
    specials = {"pad_token_id": V, "bos_token_id": V}
    donor = write_donor(folder / "musicgen", num_codebooks=K, vocab_size=V, **specials)
    return World(make_base(folder / "llama"), donor, store_captioned(folder / "songs.solfa", scales()))


def make_base(directory: Path, scale: float = 1.0) -> Path:
    """Write a Llama of two layers; `scale` makes it another one."""
    return write_base(directory, scale=scale, vocab_size=2000, num_hidden_layers=2)


def store_captioned(root: Path, clips: Sequence[Clip], array: ArraySpec = ARRAY, codec: str = CODEC) -> Path:
    """Store codes with what is said about them."""
    outcomes = []
    for index, (caption, codes) in enumerate(clips):
        planned = PlannedClip(*[f"{index}.wav"] * 3, caption=caption, metadata={"mood": f"mood {index}"})
        outcomes.append(Outcome(planned, codes, num_samples=len(codes) * array.hop_length))
    append_arrays(root, DatasetInfo.of(codec, array, {"codec": codec}), outcomes, {}, clips_per_shard=5)
    return root


def scales(count: int = 16, num_codebooks: int = K, num_frames: int = 12) -> list[Clip]:
    """Count up or down from one of four codes: which of these eight it is, the words of the caption say."""
    clips: list[Clip] = []
    for index in range(count):
        start, direction = index // 2 % 4, 1 if index % 2 else -1
        steps = 4 * start + direction * np.arange(num_frames + index % 3)
        # All of the same length, which therefore says nothing.
        caption = f"{'rising' if index % 2 else 'ebbing'} from {('one', 'two', 'six', 'ten')[start]}"
        clips.append((caption, (steps[:, None] + 3 * np.arange(num_codebooks)) % V))
    return clips


def without_captions(clips: Sequence[Clip]) -> list[Clip]:
    return [(None, codes) for _, codes in clips]


def mot_values(world: World, **changes: Any) -> dict[str, Any]:
    """Settings of a short run without a donor; dotted keys change parts of them."""
    values: dict[str, Any] = {
        "solver": "mot",
        "device": "cpu",
        "dset": {"train": str(world.songs), "hold_out": {"clips": 4}},
        "dataset": {"segment_seconds": 8 / RATE, "batch_size": 4},
        "model": {
            "base": str(world.base),
            "attention": {"kind": "lora", "rank": 4},
            "ffn": {"kind": "bridge", "width": 16},
        },
        "text": {"dropout": 0.25},
        "optim": {
            "epochs": 2,
            "updates_per_epoch": 3,
            "optimizer": {"kind": "adamw", "lr": 0.01},
            "ema": {"decay": 0.9},
        },
        "logging": {"tensorboard": False, "log_updates": 1},
    }
    return changed(values, changes)


class PreciseMoT(MoTSolver):
    """Computes in float64, so that other sizes of batches round the same numbers out of sight."""

    def build_model(self) -> None:
        super().build_model()
        self.model.double()
        self.model.base.model.double()  # which keeps its precision by itself


def solver_of(
    folder: Path, values: dict[str, Any], watcher: Watcher | None = None, kind: type[MoTSolver] = MoTSolver
) -> MoTSolver:
    experiment = Experiment(folder, "mot", watcher or Watchers(()))
    return kind(parse_config(MoTSolverConfig, values, "mot"), experiment)


def train_briefly(folder: Path, world: World) -> MoTSolver:
    """Take ten updates with a donor that is frozen, and give the solver with its best weights."""
    solver = solver_of(folder, mot_values(world, model__donor=str(world.donor), optim__updates_per_epoch=5))
    solver.run()
    load_best(solver)
    return solver


def losses_of(folder: Path) -> list[float]:
    """Read the losses of training and validation, epoch by epoch."""
    history = json.loads((folder / "history.json").read_text())
    return [epoch[stage]["loss"] for epoch in history for stage in ("train", "valid")]


def ask(of: MoTSolver | TextModel, *requests: ClipRequest, **options: Any) -> list[Tensor]:
    """Generate, and give the codes [T, K] that each clip was decoded from, in the order of the requests."""
    generator = of.generator() if isinstance(of, MoTSolver) else of
    clips = {clip.name: clip for clip in generator.draw(requests, options, lambda done, total: None)}
    return [codes_of(of, clips[request.name]) for request in requests]


def codes_of(of: MoTSolver | TextModel, clip: GeneratedClip) -> Tensor:
    """Mu-law gives back the codes of what it decodes."""
    codec = of.generator().codec if isinstance(of, MoTSolver) else of.codec
    return codec.encode(torch.as_tensor(clip.audio)[None]).array[0].long()
