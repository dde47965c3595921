"""Train a flow model on latents: predict the way from noise to latents, and clips to listen to.

    latents ──► (drawn from their posterior) ──► normalised ──► noised at a time ──► network ──► squared error

Noise, times and what is given of a clip belong to the clip, the epoch and the step, never to a process: any number of
processes learns the same. Validation has its own, the same in every epoch, so that curves do not jitter.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor

from solfa.config import Config
from solfa.data.batching.collation import Batch
from solfa.data.batching.modes import Pad
from solfa.data.sources.stage_source import OpenedSource
from solfa.data.stable_random import stable_key
from solfa.errors import ConfigError
from solfa.generate.data_codec import DataCodec, check_decoding, latents_array
from solfa.generate.latent_likelihood import latent_bits, round_latents
from solfa.generate.latent_model import LatentModel, num_means
from solfa.generate.request import ClipRequest
from solfa.models.conditioners.set import ConditionsConfig
from solfa.models.flow.config import FlowModelConfig
from solfa.models.flow.costs import kept_floats, operations
from solfa.models.flow.generation import FlowSampling
from solfa.models.flow.latents import channel_scale, posterior_draw
from solfa.models.flow.network import FlowNetwork, build_flow, known_frames
from solfa.models.flow.published_models import load_published, read_published
from solfa.models.flow.times import training_times
from solfa.ops.noise_paths import noised, target
from solfa.solvers.config import SolverConfig, StageConfig
from solfa.solvers.fabric.wrappers import unwrapped
from solfa.solvers.judge import judged_size
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.optim.optimizer import build_optimizer
from solfa.solvers.plan.expected_loss import ExpectedLoss, flow_bars
from solfa.solvers.plan.outline import FLOAT_BYTES, Outline, longest_row
from solfa.solvers.standard import StandardSolver
from solfa.solvers.tasks.shared_codecs import expect_codecs
from solfa.solvers.tasks.shared_conditions import (
    condition_rows,
    described_requests,
    expect_columns,
    refuse_packing,
    spelled_conditions,
)

logger = logging.getLogger(__name__)

BITS_CLIPS = 8
"""Each takes as long as generating it many times."""
SCALE_CLIPS = 4096
"""So many clips, evenly spaced, say what the scale of all latents is."""


class FlowGenerateConfig(StageConfig):
    """Which clips to generate for listening during training, with the conditions of the generate dataset's clips."""

    num_clips: PositiveInt = 4
    seconds: float = Field(default=10.0, gt=0)
    sampling: FlowSampling = FlowSampling()


class InpaintingConfig(Config):
    """How often a part of a clip is given to the network in training; in all other cases, nothing is."""

    segments: float = Field(default=0.1, ge=0, le=1)
    """One stretch is missing, and the rest is given."""
    beginnings: float = Field(default=0.1, ge=0, le=1)
    """The beginning is given."""

    @model_validator(mode="after")
    def _is_a_share(self) -> "InpaintingConfig":
        if self.segments + self.beginnings > 1:
            raise ValueError(
                f"expected segments and beginnings to sum to at most 1, found {self.segments + self.beginnings:g}"
            )
        return self


class FlowSolverConfig(SolverConfig):
    """A flow model and its conditioners."""

    model: FlowModelConfig
    conditioner: ConditionsConfig = ConditionsConfig()
    generate: FlowGenerateConfig = FlowGenerateConfig()
    inpainting: InpaintingConfig = InpaintingConfig()
    valid_times: PositiveInt = 4
    """At how many times each clip is validated; they are spread evenly."""
    codec: str | None = None
    """The codec that decodes generated latents; None uses the one that the dataset was encoded with."""


class Draws(NamedTuple):
    """What is drawn for a batch, each row from its clip's own generator; zeros where there is no frame."""

    fractions: Float[Tensor, "B"]
    """Where between 0 and 1 each clip's time is, before it gets its distribution."""
    noise: Float[Tensor, "B Z T"]
    posterior: Float[Tensor, "B T Z"]
    given: Bool[Tensor, "B T"]


class FlowSolver(StandardSolver[FlowSolverConfig]):
    """Learns the way from noise to latents."""

    Config: ClassVar[type[SolverConfig]] = FlowSolverConfig
    Generator = LatentModel
    reads_files: ClassVar[bool] = True

    @classmethod
    def check_start(cls, cfg: FlowSolverConfig) -> None:
        """Refuse codecs of codes."""
        expect_codecs(cfg.dset, "latents", "a flow model")

    def build_model(self) -> None:
        """Size the model to the data, and measure the scale of its latents."""
        cfg = self.cfg
        self.array = latents_array(self.data_facts)
        refuse_packing(cfg.dataset)
        self.model = self._build_network()
        if cfg.model.normalise:
            scale = channel_scale(_some_arrays(self.sources["train"]), self.num_channels)
            self.model.mean.copy_(scale.mean[:, None])
            self.model.std.copy_(scale.std[:, None])
        self.model.trained_frames.fill_(self._row_frames())
        if not cfg.inpainting.segments + cfg.inpainting.beginnings:
            self.model.hear_nothing()
        self.add_adapter()
        self.optimizer = build_optimizer(self.model, cfg.optim)
        self.register_stateful("model", "optimizer")
        self.register_best("model")
        self.register_ema("model")
        if cfg.generate.every is not None:
            check_decoding(self.generator().codec, self.array)

    def outline(self) -> Outline:
        latents_array(self.data_facts)
        expect_columns(self.cfg.conditioner.sources, self.sources["train"])
        network = self._build_network()
        num_frames = longest_row(self.cfg.dataset, self.sources["train"])
        return Outline(
            {"model": network},
            kept_bytes=FLOAT_BYTES * num_frames * kept_floats(network),
            row_operations=operations(network, num_frames),
            smaller="use solver=flow/tiny, or set model.dim lower",
        )

    def best_metric(self) -> str:
        return "loss"

    def batch_weight(self, batch: Batch) -> float:
        return float(batch.mask.sum())

    def run_step(self, idx: int, batch: Batch, metrics: Metrics) -> Metrics:
        tokens = self.network.conditioners.tokenize(
            condition_rows(self.cfg.conditioner, batch, self.cfg.seed, drops=self.is_training)
        )
        draws = self._draws(batch)
        if self.is_training:
            error = self._error(batch, tokens, draws, draws.fractions)
            # The mean over the global batch once the processes' gradients are averaged.
            share = self.fabric.world_size / (self.num_channels * max(1, batch.global_frames))
            metrics["grad_norm"] = self.update(error * share)
        else:
            count = self.cfg.valid_times
            grid = [(draws.fractions + number) / count for number in range(count)]
            error = torch.stack([self._error(batch, tokens, draws, fractions) for fractions in grid]).mean()
        return {**metrics, "loss": error.detach() / (self.num_channels * batch.mask.sum().clamp(min=1))}

    def generate(self) -> Metrics:
        """Generate clips with the conditions of the generate dataset's clips."""
        wanted, columns = self.cfg.generate, self.cfg.conditioner.sources
        source, seed = self.sources["generate"], self.cfg.seed
        requests = described_requests(source, wanted.num_clips, wanted.seconds, columns, seed)
        return {"clips": float(len(self.draw_clips(self.generator(), requests)))}

    def judged_requests(self, num_clips: int, seconds: float) -> list[ClipRequest]:
        source, columns = self.sources["evaluate"], self.cfg.conditioner.sources
        return described_requests(source, num_clips, seconds, columns, self.cfg.seed)

    def judged_generator(self) -> LatentModel:
        return self.generator()

    def bits_per_second(self, means: Metrics) -> float:
        """Count the bits of some clips of the evaluate dataset along the probability flow."""
        num_clips, seconds = judged_size(self.cfg.evaluate)
        generator, source = self.generator(), self.sources["evaluate"]
        length = max(1, round(seconds * self.array.frame_rate))
        requests = self.judged_requests(min(num_clips, BITS_CLIPS), seconds)
        bits, frames = 0.0, 0
        for index, request in enumerate(requests):
            latents = torch.from_numpy(source[index].array[:length, : self.num_channels].astype(np.float32))
            bits += latent_bits(generator, latents, None, request.conditions, seed=self.cfg.seed).bits
            frames += len(latents)
            self.stop_if_asked()
        return bits * self.array.frame_rate / frames

    def as_counted(self, array: NDArray[Any]) -> NDArray[Any]:
        """Round latents as their bits are counted."""
        rounded = round_latents(self.generator(), torch.from_numpy(array.astype(np.float32))[None])
        return rounded[0].numpy().astype(array.dtype)

    def generator(self) -> LatentModel:
        """Build a generator around the current weights; its codec is freed with it, as training needs the memory."""
        data_codec = DataCodec(self.cfg.codec or str(self.data_facts["codec"]), latents_array(self.data_facts))
        return LatentModel(self.network, data_codec, self.cfg.generate.sampling)

    def load_pretrained(self, location: str) -> str:
        """Start from a pipeline of diffusers or a model of stable-audio-tools; its latents keep their scale."""
        published = read_published(location.removeprefix("//pretrained/"))
        if published.num_channels != self.num_channels:
            raise ConfigError(
                f"dset: {location} draws latents of {published.num_channels} channels, found {self.num_channels}; "
                "encode the audio with its autoencoder"
            )
        if changes := _changes(self.cfg.model, published.settings):
            raise ConfigError(f"model: {location} is another network; to continue from it, add {' '.join(changes)}")
        return load_published(self.network, published, location)

    def expected_losses(self) -> list[ExpectedLoss]:
        return flow_bars(self.cfg.model, self.cfg.model.shift_at(self._row_frames()))

    def model_input(self, batch: Batch) -> Tensor:
        return self.network.normalised(batch.arrays[..., : self.num_channels]).transpose(1, 2)

    def conditions_as_read(self, batch: Batch) -> list[dict[str, str]]:
        return spelled_conditions(self.cfg.conditioner, self.network.conditioners, batch)

    @property
    def network(self) -> FlowNetwork:
        """The model itself, without Fabric's wrapper."""
        network = unwrapped(self.model)
        assert isinstance(network, FlowNetwork)
        return network

    @property
    def num_channels(self) -> int:
        """The channels that the model draws."""
        return num_means(self.data_facts)

    def _build_network(self) -> FlowNetwork:
        cfg = self.cfg
        return build_flow(cfg.model, cfg.conditioner, self.num_channels, self.sources["train"].values)

    def _row_frames(self) -> int:
        """Count the frames of the longest row."""
        rows = self.cfg.dataset.rows("train", self.sources["train"]) if self.cfg.dataset is not None else None
        longest = int(self.sources["train"].num_frames.max())
        return longest if rows is None or isinstance(rows, Pad) else min(longest, rows.num_frames)

    def _error(self, batch: Batch, tokens: Any, draws: Draws, fractions: Float[Tensor, "B"]) -> Float[Tensor, ""]:
        """Sum the squared errors over frames and channels."""
        network, model = self.network, self.cfg.model
        mask = batch.mask
        latents = batch.arrays
        if self.array.width > self.num_channels:
            latents = posterior_draw(latents, draws.posterior) if self.is_training else latents.chunk(2, dim=-1)[0]
        data = network.normalised(latents) * mask[:, None]
        shifts = fractions.new_tensor([model.shift_at(count) for count in batch.num_frames.tolist()])
        times = training_times(fractions, model.times, model.objective, shifts)
        points = noised(data, draws.noise, times, model.objective)
        known = known_frames(data, draws.given) if network.hears_known else None
        some_missing = None if bool(mask.all()) else mask
        predicted = self.model(points, times, tokens, self._seconds(batch), some_missing, known)
        wanted = target(data, draws.noise, times, model.objective)
        error: Tensor = ((predicted - wanted).square() * mask[:, None]).sum()
        return error

    def _seconds(self, batch: Batch) -> Float[Tensor, "B M"]:
        rate = self.array.frame_rate
        known = {"seconds_start": batch.starts / rate, "seconds_total": batch.clip_frames / rate}
        columns = [known[name].float() for name in self.cfg.model.timing]
        return torch.stack(columns, dim=1) if columns else batch.arrays.new_zeros(len(batch), 0)

    def _draws(self, batch: Batch) -> Draws:
        frames, width = batch.arrays.shape[1], self.num_channels
        shares = (
            self.cfg.inpainting
            if self.is_training and self.network.hears_known
            else InpaintingConfig(segments=0, beginnings=0)
        )
        has_posterior = self.is_training and self.array.width > width
        fractions, noise, posterior, given = [], [], [], []
        for clip_id, count in zip(batch.ids, batch.num_frames.tolist(), strict=True):
            when = ("train", batch.epoch, batch.step) if self.is_training else ("valid",)
            key = stable_key("flow", self.cfg.seed, *when, clip_id) % 2**63
            generator = torch.Generator().manual_seed(key)
            fractions.append(torch.rand((), generator=generator))
            given.append(_given(torch.rand(3, generator=generator).tolist(), count, frames, shares))
            noise.append(_padded(torch.randn(count, width, generator=generator), frames))
            drawn = torch.randn(count, width, generator=generator) if has_posterior else torch.zeros(0, width)
            posterior.append(_padded(drawn, frames))
        device = batch.arrays.device
        return Draws(
            torch.stack(fractions).to(device),
            torch.stack(noise).transpose(1, 2).to(device),
            torch.stack(posterior).to(device),
            torch.stack(given).to(device),
        )


def _changes(model: FlowModelConfig, settings: Mapping[str, Any]) -> list[str]:
    """Spell what would have to be set for a model to be a published one."""
    own = model.model_dump()
    # A width that is not set is that of the conditions.
    own["cross_dim"] = own.get("cross_dim") or own["cond_dim"]
    found = {name: list(value) if isinstance(value, tuple) else value for name, value in own.items()}
    wanted = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
    if found["kind"] != wanted["kind"]:
        return [f"model=flow/{wanted['kind']}"]
    return [
        f"model.{name}={str(value).replace(' ', '')}" if isinstance(value, list) else f"model.{name}={value}"
        for name, value in wanted.items()
        if found.get(name) != value
    ]


def _given(fractions: list[float], num_frames: int, num_columns: int, shares: InpaintingConfig) -> Bool[Tensor, "T"]:
    """Choose the frames that are given: all but a stretch, the beginning, or none."""
    kind, first, second = fractions
    given = torch.zeros(num_columns, dtype=torch.bool)
    low, high = sorted((int(first * num_frames), int(second * num_frames)))
    if kind < shares.segments:
        given[:num_frames] = True
        given[low : max(high, low + 1)] = False
    elif kind < shares.segments + shares.beginnings:
        given[:low] = True
    return given


def _padded(frames: Float[Tensor, "n Z"], num_columns: int) -> Float[Tensor, "T Z"]:
    return torch.nn.functional.pad(frames, (0, 0, 0, num_columns - len(frames)))


def _some_arrays(source: OpenedSource) -> Iterator[np.ndarray[Any, Any]]:
    """Read evenly spaced clips."""
    count = min(SCALE_CLIPS, len(source))
    for place in range(count):
        yield source[place * len(source) // count].array
