"""Train a SaShiMi on raw waveforms: the likelihood of each sample given all before it, in bits, and clips to listen to.

    classes of a clip ──► shifted by one ──► SaShiMi ──► head: a distribution over the next class ──► nats, bits

The data is waveforms in a mono `mulaw` or `linear` dataset. Its grid says how many classes there are and which
amplitudes they stand for; padding does not count.
"""

import math
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from pydantic import Field, PositiveInt
from torch import Tensor

from solfa.data.batching.collation import Batch
from solfa.data.batching.stage_batches import PackRows, segment_frames
from solfa.data.stable_random import stable_key
from solfa.errors import ConfigError
from solfa.generate.request import ClipRequest
from solfa.generate.waveform_model import WaveformModel, build_sashimi, waveform_codec
from solfa.generate.waveforms import WaveformChoices
from solfa.models.sashimi.config import SashimiModelConfig
from solfa.models.sashimi.generation import WaveformSampling
from solfa.models.sashimi.network import Sashimi, SashimiState, previous_classes
from solfa.solvers.config import SolverConfig, StageConfig
from solfa.solvers.fabric.wrappers import is_wrapped_module, unwrapped
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.loop.update import unsynchronised
from solfa.solvers.optim.optimizer import build_optimizer
from solfa.solvers.plan.outline import Outline
from solfa.solvers.standard import StandardSolver


class SashimiGenerateConfig(StageConfig):
    """Which clips to generate for listening during training."""

    num_clips: PositiveInt = 4
    seconds: float = Field(default=2.0, gt=0)
    sampling: WaveformSampling = WaveformSampling()


class SashimiSolverConfig(SolverConfig):
    """A model of waveforms."""

    model: SashimiModelConfig
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

    def build_model(self) -> None:
        """Size the network to the data's grid, and initialise its last layer for the head."""
        cfg = self.cfg
        self.codec = waveform_codec(self.data_facts)
        if cfg.dataset is not None and isinstance(cfg.dataset.mode, PackRows):
            raise ConfigError(
                "dataset.mode: packed rows join unrelated clips, which SaShiMi would read as one; use crop or pad"
            )
        self.model, self.head = build_sashimi(cfg.model, self.codec)
        self.optimizer = build_optimizer(self.model, cfg.optim)
        self.register_stateful("model", "optimizer")
        self.register_best("model")
        self.register_ema("model")

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
        for number, piece in enumerate(pieces, 1):
            is_last = number == len(pieces)
            with unsynchronised(self.fabric, [] if is_last else [self.model]):
                outputs, state = self._read(piece.inputs, state, keep_state=not is_last)
                count = piece.mask.sum()
                nats = self.head.loss(outputs, piece.classes, piece.mask) * count
                if self.is_training:
                    metrics["grad_norm"] = self._descend(nats * share, is_last)
            found = {"loss": nats.detach(), **self._statistics(outputs.detach(), piece.mask, count)}
            totals = {name: totals[name] + value if totals else value for name, value in found.items()}
        metrics.update({name: value / batch.mask.sum().clamp(min=1) for name, value in totals.items()})
        return metrics

    def summarise(self, means: Metrics) -> Metrics:
        """Add the loss in bits."""
        return {**means, "bits_per_sample": means["loss"] / math.log(2)}

    def generate(self) -> Metrics:
        """Draw unprompted clips."""
        wanted = self.cfg.generate
        seeds = [stable_key("generate", self.cfg.seed, self.epoch, index) % 2**63 for index in range(wanted.num_clips)]
        requests = [ClipRequest(f"{index:03d}", wanted.seconds, seed) for index, seed in enumerate(seeds)]
        bits = [clip.metadata["bits_per_sample"] for clip in self.draw_clips(self.generator(), requests)]
        return {"clips": float(len(bits)), "bits_per_sample": sum(bits) / len(bits)}

    def generator(self) -> WaveformModel:
        """Build a generator around the current weights."""
        sampling = WaveformChoices(**self.cfg.generate.sampling.model_dump())
        return WaveformModel(self.network, self.head, self.codec, sampling)

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
