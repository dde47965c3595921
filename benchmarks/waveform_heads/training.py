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
from torch import Tensor

from solfa.errors import ConfigError
from solfa.files import replace_atomically
from solfa.models import DmlHead, SashimiConfig
from solfa.models.sashimi.own_draws import continue_freely, level_errors
from solfa.solvers import OptimConfig, build_optimizer
from solfa.solvers.optim import AdamW, Cosine, ParameterGroup, build_schedule

from .contenders import Contender, WaveformModel
from .paths import is_known_to_kernel
from .recordings import Excerpts, Split, training_crops
from .scoring import averages, score

FIT_CROPS = 256
"""Of the training data, that a linear path is fitted to."""
FREE_RUNNING_EVERY, FREE_RUNNING_AFTER, FREE_RUNNING_CROPS = 4, 50, 3
"""Updates from one that lets a network run freely to the next, before the first, and how many crops long its clip is:
one is read, the others are drawn."""


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
    free_running: float = 0.0
    """The weight of the levels that a mixture with a linear path expects in its own draws; 0 lets none run freely."""
    power_weight: float = 0.0
    """That of the powers among these levels, next to the spreads."""
    moment_weight: float | None = None
    """Of the mean and variance of a mixture with a linear path; None is the library's."""

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
    if settings.moment_weight is not None:
        with_path(model, "--moment-weight").moment_weight = settings.moment_weight
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
    if Settings(**result["settings"]) != settings:
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
        if is_due(settings, update):
            torch.autograd.backward(settings.free_running * own_levels(model, seed, update, settings, split))
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


def is_due(settings: Settings, update: int) -> bool:
    """Say whether an update also lets the network run freely."""
    return bool(settings.free_running) and update >= FREE_RUNNING_AFTER and update % FREE_RUNNING_EVERY == 0


def with_path(model: WaveformModel, option: str) -> DmlHead:
    """Give the head that an option is about, and refuse any other."""
    if not isinstance(model.head, DmlHead) or not model.head.is_centred:
        raise ConfigError(f"{option}: expected nothing but mixtures with a linear path, found another head; use --only")
    return model.head


def own_levels(model: WaveformModel, seed: int, update: int, settings: Settings, split: Split) -> Tensor:
    """Continue a training clip from its first crop, and score the levels that are expected in what was drawn."""
    head, prompt_samples = with_path(model, "--free-running"), settings.num_samples
    if not is_known_to_kernel(model.network):
        raise ConfigError(
            "--free-running: expected the library's linear path, found one that the kernel cannot draw; use --only"
        )
    num_samples = FREE_RUNNING_CROPS * prompt_samples
    long_enough = [recording for recording in split.train if len(recording.audio) >= num_samples]
    # The crops of another seed: not the ones that are learned from in this update.
    real = model.grid.to_classes(training_crops(long_enough, seed + 100, update, 1, num_samples))
    own = continue_freely(model.network, head, real, prompt_samples, [16 * update])
    with torch.no_grad():
        expected = model(real)[:, prompt_samples:]
    found = model(own)[:, prompt_samples:]
    errors = level_errors(head, found, expected, torch.ones(found.shape[:2], dtype=torch.bool))
    return (errors.spread + settings.power_weight * errors.power).mean()
