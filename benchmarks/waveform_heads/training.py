"""Train one contender; what is finished is written down, and read instead of trained again."""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from solfa.errors import ConfigError
from solfa.files import replace_atomically
from solfa.models import SashimiConfig
from solfa.solvers import OptimConfig, build_optimizer
from solfa.solvers.optim import AdamW, Cosine, ParameterGroup, build_schedule

from .contenders import Contender, WaveformModel
from .recordings import Excerpts, Split, training_crops
from .scoring import averages, score

FIT_CROPS = 256
"""Of the training data, that a linear path is fitted to."""


@dataclass(frozen=True)
class Settings:
    """What is equal for all contenders."""

    updates: int
    num_clips: int
    num_samples: int
    dim: int
    layers: int
    d_state: int
    lr: float
    dynamics_lr: float
    warmup_updates: int = 50
    points: int = 10
    """Of the curve."""
    curve_excerpts: int = 33
    """About so many of the excerpts are scored for each point."""

    @property
    def backbone(self) -> SashimiConfig:
        return SashimiConfig(dim=self.dim, n_layers=self.layers, d_state=self.d_state)

    @property
    def optim(self) -> OptimConfig:
        """The published recipe, but for a schedule that ends with the run."""
        return OptimConfig(
            optimizer=AdamW(lr=self.lr, betas=(0.9, 0.999), weight_decay=0.0),
            groups=(ParameterGroup(pattern="*.dynamics.*", lr_scale=self.dynamics_lr / self.lr),),
            schedule=Cosine(warmup_updates=self.warmup_updates),
            updates_per_epoch=self.updates,
            epochs=1,
        )


Result = dict[str, Any]
"""Of one run, as JSON: name, title, grid, seed, settings, parameters, bits, bits_per_excerpt, curve, cpu_seconds."""


def run(
    contender: Contender,
    seed: int,
    settings: Settings,
    split: Split,
    excerpts: Excerpts,
    folder: Path,
    tell: Callable[[str], None],
) -> Result:
    """Train and score a contender, unless `folder` already holds the result."""
    path = folder / f"{contender.name}-seed{seed}.json"
    if path.exists():
        return read_result(path, settings)
    model = WaveformModel(contender, settings.backbone, seed)
    model.fit(list(training_crops(split.train, 0, 0, FIT_CROPS, settings.num_samples)))
    curve, cpu_seconds = train(model, seed, settings, split, excerpts, lambda line: tell(f"{path.stem}: {line}"))
    bits = score(model, excerpts.audio)
    result: Result = {
        "name": contender.name,
        "title": contender.title,
        "grid": f"{contender.grid.kind}{contender.grid.bits}",
        "seed": seed,
        "settings": asdict(settings),
        "parameters": model.parameter_counts(),
        "cpu_seconds": cpu_seconds,
        "bits": averages(bits),
        "bits_per_excerpt": bits,
        "curve": curve,
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(model.state_dict(), path.with_suffix(".safetensors"))
    replace_atomically(path, json.dumps(result).encode())
    return result


def read_result(path: Path, settings: Settings) -> Result:
    """Read what a run left; one of other settings is refused."""
    result: Result = json.loads(path.read_text())
    if result["settings"] != asdict(settings):
        raise ConfigError(
            f"{path}: expected a run with {asdict(settings)}, found {result['settings']}; give another --out"
        )
    return result


def train(
    model: WaveformModel,
    seed: int,
    settings: Settings,
    split: Split,
    excerpts: Excerpts,
    tell: Callable[[str], None],
) -> tuple[list[dict[str, Any]], float]:
    """Make all updates; give the curve over a few excerpts, and the CPU seconds of the updates."""
    optim = settings.optim
    optimizer = build_optimizer(model, optim)
    schedule = build_schedule(optimizer, optim)
    few = excerpts.audio[:: max(1, len(excerpts.audio) // settings.curve_excerpts)]
    curve: list[dict[str, Any]] = []
    cpu_seconds = losses = 0.0
    every = max(1, settings.updates // settings.points)
    for update in range(settings.updates):
        start = time.process_time()
        audio = training_crops(split.train, seed, update, settings.num_clips, settings.num_samples)
        classes = model.grid.to_classes(audio)
        outputs = model(classes)
        loss = model.head.loss(outputs, classes)
        optimizer.zero_grad()
        torch.autograd.backward(loss + model.head.penalty(outputs, classes))
        torch.nn.utils.clip_grad_norm_(model.parameters(), optim.clip_norm or math.inf)
        optimizer.step()
        schedule.step()
        losses += float(loss.detach())
        cpu_seconds += time.process_time() - start
        if (update + 1) % every == 0:
            point = {"updates": update + 1, "cpu_seconds": cpu_seconds, "train": losses / every / math.log(2)}
            curve.append(point | {"bits": averages(score(model, few))})
            losses = 0.0
            tell(json.dumps(curve[-1]))
    return curve, cpu_seconds
