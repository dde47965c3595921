"""Train a SaShiMi on raw waveforms: the likelihood of each sample given all before it, in bits, and clips to listen to.

    classes of a clip ──► shifted by one ──► SaShiMi ──► head: a distribution over the next class ──► nats, bits

The data is waveforms in a mono `mulaw` or `linear` dataset. Its grid says how many classes there are and which
amplitudes they stand for; padding does not count.
"""

import json
import logging
import math
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from solfa.config import Config
from solfa.data.batching.collation import Batch
from solfa.data.batching.stage_batches import PackRows, segment_frames
from solfa.data.sources.stage_source import OpenedSource
from solfa.data.stable_random import stable_key
from solfa.errors import ConfigError
from solfa.generate.request import ClipRequest
from solfa.generate.waveform_model import WaveformModel, build_sashimi, waveform_codec
from solfa.generate.waveforms import WaveformChoices
from solfa.models.sashimi.config import SashimiModelConfig
from solfa.models.sashimi.generation import WaveformSampling
from solfa.models.sashimi.heads import DmlHead
from solfa.models.sashimi.network import Sashimi, SashimiState, previous_classes
from solfa.models.sashimi.own_draws import FRAME, continue_freely, level_errors
from solfa.models.sashimi.state_spaces import load_state_spaces
from solfa.ops.class_grid import Grid
from solfa.solvers.config import SolverConfig, StageConfig
from solfa.solvers.fabric.wrappers import is_wrapped_module, unwrapped
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.loop.update import unsynchronised
from solfa.solvers.optim.optimizer import build_optimizer
from solfa.solvers.plan.outline import Outline
from solfa.solvers.standard import StandardSolver
from solfa.spelling import plural
from solfa.xp.state_file import load_module

logger = logging.getLogger(__name__)

FIT_CLIPS, FIT_SAMPLES = 256, 1 << 16
"""How many clips a linear predictor is fitted to, and how many samples of each."""


class SashimiGenerateConfig(StageConfig):
    """Which clips to generate for listening during training."""

    num_clips: PositiveInt = 4
    seconds: float = Field(default=2.0, gt=0)
    sampling: WaveformSampling = WaveformSampling()


class FreeRunning(Config):
    """Which updates also teach a mixture to keep its loudness when it hears nothing but itself."""

    weight: PositiveFloat = 1.0
    """Of the errors of spreads (solfa/models/sashimi/own_draws.py), next to the nats of a sample."""
    power_weight: NonNegativeFloat = 0.0
    """Of the errors of powers, next to the errors of spreads; 0 does not mind them."""
    every: PositiveInt = 4
    """Updates from one that does to the next."""
    after: NonNegativeInt = 50
    """Updates before the first one: a network that has learned nothing yet draws noise."""
    seconds: PositiveFloat = 0.75
    """How much of a row is used, at most; the network reads the first third and draws the rest."""


class SashimiSolverConfig(SolverConfig):
    """A model of waveforms."""

    model: SashimiModelConfig
    free_running: FreeRunning | None = None
    """None trains with recordings alone. Only a mixture with a linear path can be taught this."""
    truncate_seconds: float | None = Field(default=None, gt=0)
    """Truncated backpropagation: a row is read in pieces of this many samples, each starting from the state the
    previous one left, so that memory is that of one piece. None goes through the whole row."""
    generate: SashimiGenerateConfig = SashimiGenerateConfig()


class Piece(NamedTuple):
    """Some samples of every row, and the inputs that predict them."""

    inputs: Int64[Tensor, "B n"]
    classes: Int64[Tensor, "B n"]
    mask: Bool[Tensor, "B n"]


class SashimiSolver(StandardSolver[SashimiSolverConfig]):
    """Learns to predict the next sample."""

    Config: ClassVar[type[SolverConfig]] = SashimiSolverConfig
    Generator = WaveformModel
    reads_files: ClassVar[bool] = True

    def build_model(self) -> None:
        """Size the network to the data's grid, and initialise its last layer for the head."""
        cfg = self.cfg
        self.codec = waveform_codec(self.data_facts)
        if cfg.dataset is not None and isinstance(cfg.dataset.mode, PackRows):
            raise ConfigError(
                "dataset.mode: packed rows join unrelated clips, which SaShiMi would read as one; use crop or pad"
            )
        self.model, self.head = build_sashimi(cfg.model, self.codec)
        if cfg.free_running is not None and self.model.linear_path is None:
            raise ConfigError(
                "free_running: expected a mixture with a linear path, found none; set model.output_head=dml without "
                "model.prediction_order=0, or remove free_running"
            )
        if self.model.linear_path is not None:
            assert isinstance(self.head, DmlHead), "a linear path leads to the means of a mixture"
            # Restored weights bring the prediction that they were trained with.
            recordings = some_amplitudes(self.sources["train"], self.codec.grid)
            self.model.linear_path.fit(recordings, self.model.projection, self.head.num_mixtures)
        self.optimizer = build_optimizer(self.model, cfg.optim)
        self.register_stateful("model", "optimizer")
        self.register_best("model")
        self.register_ema("model")
        if self.is_first_rank:
            logger.info(self.describe())

    def describe(self) -> str:
        """Say in one line what is trained: the head, its mixtures and classes, how far it hears, its size."""
        head, grid, batching = self.head, self.codec.grid, self.cfg.dataset
        mixtures = f" with {plural(head.num_mixtures, 'mixture')}" if isinstance(head, DmlHead) else ""
        if (path := self.network.linear_path) is not None:
            mixtures += f" around a linear prediction of order {path.order}"
        heard = "whole clips"
        if batching is not None and (seconds := batching.train.segment_seconds or batching.segment_seconds) is not None:
            heard = f"{segment_frames(seconds, self.codec.frame_rate):,} samples ({seconds:g} s)"
        size = sum(parameter.numel() for parameter in self.network.parameters())
        return (
            f"SaShiMi: {self.cfg.model.output_head.kind} head{mixtures}, {head.num_classes:,} classes ({grid.kind}, "
            f"{grid.bits} bits, {self.codec.sample_rate:,} Hz), receptive length {heard}, {plural(size, 'parameter')}"
        )

    def outline(self) -> Outline:
        network, _ = build_sashimi(self.cfg.model, waveform_codec(self.data_facts))
        return Outline({"model": network}, smaller="use model=sashimi/small, or set model.dim lower")

    def best_metric(self) -> str:
        return "bits_per_sample"

    def batch_weight(self, batch: Batch) -> float:
        return float(batch.mask.sum())

    def run_step(self, idx: int, batch: Batch, metrics: Metrics) -> Metrics:
        # The mean over the global batch once the processes' gradients are averaged.
        share = self.fabric.world_size / max(1, batch.global_frames)
        pieces = self._pieces(batch)
        state: SashimiState | None = None
        totals: dict[str, Tensor] = {}
        if self.is_training and self._runs_freely():
            metrics.update(self._run_freely(batch, share))
        for number, piece in enumerate(pieces, 1):
            is_last = number == len(pieces)
            with unsynchronised(self.fabric, [] if is_last else [self.model]):
                outputs, state = self._read(piece.inputs, state, keep_state=not is_last)
                count = piece.mask.sum()
                nats = self.head.loss(outputs, piece.classes, piece.mask) * count
                if self.is_training:
                    aim = nats + self.head.penalty(outputs, piece.classes, piece.mask) * count
                    metrics["grad_norm"] = self._descend(aim * share, is_last)
            found = {"loss": nats.detach(), **self._statistics(outputs.detach(), piece.mask, count)}
            totals = {name: totals[name] + value if totals else value for name, value in found.items()}
        metrics.update({name: value / batch.mask.sum().clamp(min=1) for name, value in totals.items()})
        return metrics

    def summarise(self, means: Metrics) -> Metrics:
        """Add the loss in bits."""
        return {**means, "bits_per_sample": means["loss"] / math.log(2)}

    def generate(self) -> Metrics:
        """Draw unprompted clips."""
        requests = self.judged_requests(self.cfg.generate.num_clips, self.cfg.generate.seconds)
        bits = [clip.metadata["bits_per_sample"] for clip in self.draw_clips(self.generator(), requests)]
        return {"clips": float(len(bits)), "bits_per_sample": sum(bits) / len(bits)}

    def judged_requests(self, num_clips: int, seconds: float) -> list[ClipRequest]:
        """Ask for clips; a waveform model takes no conditions."""
        seeds = [stable_key("generate", self.cfg.seed, index) % 2**63 for index in range(num_clips)]
        return [ClipRequest(f"{index:03d}", seconds, seed) for index, seed in enumerate(seeds)]

    def judged_generator(self) -> WaveformModel:
        return self.generator()

    def bits_per_second(self, means: Metrics) -> float:
        return float(means["bits_per_sample"]) * self.codec.sample_rate

    def generator(self) -> WaveformModel:
        """Build a generator around the current weights."""
        sampling = WaveformChoices(**self.cfg.generate.sampling.model_dump())
        return WaveformModel(self.network, self.head, self.codec, sampling)

    def load_pretrained(self, location: str) -> str:
        """Start from a checkpoint of state-spaces with S4D layers."""
        path = Path(location).expanduser()
        if not path.is_file():
            raise ConfigError(
                f"continue_from: expected an experiment (//sig/SIG), a checkpoint file, or a .ckpt of state-spaces, "
                f"found {location}, which does not exist"
            )
        loaded = load_state_spaces(path)
        if (grid := waveform_codec({"codec": loaded.codec}).grid) != self.codec.grid:
            found = self.codec.grid
            raise ConfigError(
                f"dset: {location} was trained on {grid.kind} classes of {grid.bits} bits, found {found.kind} of "
                f"{found.bits}; set \"dset.train.codec='{loaded.codec}'\""
            )
        if changes := _changes(self.cfg.model, loaded.config):
            raise ConfigError(f"model: {location} is another network; to continue from it, add {' '.join(changes)}")
        load_module("model", self.network, loaded.state)
        return f"loaded all {loaded.num_tensors} tensors of {location}; the optimizer and the schedule start fresh"

    @property
    def network(self) -> Sashimi:
        """The model itself, without Fabric's wrapper."""
        network = unwrapped(self.model)
        assert isinstance(network, Sashimi)
        return network

    def _pieces(self, batch: Batch) -> list[Piece]:
        classes = batch.arrays[..., 0]
        seconds = self.cfg.truncate_seconds
        size = classes.shape[1] if seconds is None else segment_frames(seconds, self.codec.frame_rate)
        inputs = previous_classes(classes, self.network.start(len(classes)))
        cut = (torch.split(tensor, max(1, size), dim=1) for tensor in (inputs, classes, batch.mask))
        return [Piece(*parts) for parts in zip(*cut, strict=True)]

    def _read(
        self, inputs: Int64[Tensor, "B n"], state: SashimiState | None, keep_state: bool
    ) -> tuple[Float[Tensor, "B n P"], SashimiState | None]:
        if not keep_state:
            return self.model(inputs, state), None
        if is_wrapped_module(self.model):
            # So that it goes through Fabric's wrapper, as `forward` does.
            self.model.mark_forward_method("forward_with_state")  # type: ignore[operator]
        outputs, last = self.model.forward_with_state(inputs, state)
        return outputs, last.map(Tensor.detach)

    def _runs_freely(self) -> bool:
        settings = self.cfg.free_running
        if settings is None:
            return False
        done = (self.epoch - 1) * self.cfg.optim.updates_per_epoch + self.num_updates
        return done >= settings.after and done % settings.every == 0

    def _run_freely(self, batch: Batch, share: float) -> Metrics:
        """Continue the beginnings of all rows, and accumulate the gradient of what the levels in them miss."""
        settings, head = self.cfg.free_running, self.head
        assert settings is not None and isinstance(head, DmlHead)
        num_samples = segment_frames(settings.seconds, self.codec.frame_rate)
        classes, mask = batch.arrays[:, :num_samples, 0], batch.mask[:, :num_samples]
        prompt_samples = classes.shape[1] // 3
        if classes.shape[1] < 2 * FRAME:
            raise ConfigError(
                f"free_running.seconds: expected rows of {2 * FRAME} samples or more, found {classes.shape[1]}; "
                "lengthen it or dataset.segment_seconds, or remove free_running"
            )
        clips = zip(batch.ids, batch.starts.tolist(), strict=True)
        # By clip and place, so that the draws are the same wherever a row is read.
        seeds = [stable_key("own draws", self.cfg.seed, batch.epoch, *clip) % 2**63 for clip in clips]
        own = continue_freely(self.network, head, classes, prompt_samples, seeds)
        with unsynchronised(self.fabric, [self.model]):
            with torch.no_grad():
                real, _ = self._read(previous_classes(classes, self.network.start(len(classes))), None, False)
            outputs, _ = self._read(previous_classes(own, self.network.start(len(own))), None, False)
            drawn = slice(None), slice(prompt_samples, None)
            errors = level_errors(head, outputs[drawn], real[drawn], mask[drawn])
            penalties = errors.spread + settings.power_weight * errors.power
            # Each row counts as much as its samples do in the likelihood, whichever process has it.
            self._descend(settings.weight * (penalties * batch.mask.sum(dim=1)).sum() * share, is_last=False)
        spread, power = (error.detach().mean().sqrt() for error in errors)
        return {"own_level_error": spread, "own_power_error": power}

    def _descend(self, loss: Tensor, is_last: bool) -> Tensor | None:
        """Accumulate gradients, and take the step with the last piece."""
        before = self._accumulates
        self._accumulates = before or not is_last
        try:
            return self.update(loss)
        finally:
            self._accumulates = before

    def _statistics(self, outputs: Tensor, mask: Tensor, count: Tensor) -> dict[str, Tensor]:
        """Sum the head's metrics; in training over one row, because they take as much memory as the loss."""
        rows = slice(1 if self.is_training else None)
        found = self.head.statistics(outputs[rows], mask[rows])
        return {name: value * count for name, value in found.items()}


def some_amplitudes(source: OpenedSource, grid: Grid) -> Iterator[Float[Tensor, "_"]]:
    """Read the middles of evenly spaced clips: a function of the dataset alone, whoever reads it."""
    count = min(FIT_CLIPS, len(source))
    for place in range(count):
        array = source[place * len(source) // count].array
        start = max(0, (len(array) - FIT_SAMPLES) // 2)
        classes = torch.from_numpy(array[start : start + FIT_SAMPLES, 0].astype(np.int64))
        yield grid.to_audio(classes)


def _changes(model: SashimiModelConfig, wanted: SashimiModelConfig) -> list[str]:
    """List the overrides that turn one network into another, leaving what a dataset or training determines."""
    free = {"num_classes", "dropout", "dt_min", "dt_max", "gradient_checkpointing", "output_head"}
    found, asked = (config.model_dump(mode="json", exclude=free) for config in (model, wanted))
    found["output_head"], asked["output_head"] = model.output_head.kind, wanted.output_head.kind
    spelled = {name: json.dumps(value).replace('"', "").replace(" ", "") for name, value in asked.items()}
    return [f"model.{name}={spelled[name]}" for name in asked if found[name] != asked[name]]
