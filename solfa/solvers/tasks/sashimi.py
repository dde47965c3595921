"""Train a SaShiMi on raw waveforms: the likelihood of each sample given all before it, in bits, and clips to listen to.

    classes of a clip ──► shifted by one ──► SaShiMi ──► head: a distribution over the next class ──► nats, bits

The data are waveforms as a mono `mulaw` or `linear` dataset stores them. Its grid says how many classes there are and
how they sound; what pads a batch does not count.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor

from solfa.codecs.catalogue import load_codec
from solfa.codecs.families.quantized import WaveformCodec
from solfa.config import parse_config
from solfa.data.batching.collation import Batch
from solfa.data.batching.stage_batches import PackRows, segment_frames
from solfa.data.stable_random import stable_key
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.request import AudioRequest, read_prompt
from solfa.generate.stream import OnAudio
from solfa.generate.waveforms import (
    LikelyClip,
    Progress,
    WaveformChoices,
    WaveformRequest,
    generate_waveforms,
    keep_likely,
    kept_ranks,
)
from solfa.models.sashimi.generation import WaveformSampling
from solfa.models.sashimi.heads import CategoricalHead, CategoricalHeadConfig, HeadConfig, OutputHead
from solfa.models.sashimi.network import Sashimi, SashimiConfig, SashimiState, previous_classes
from solfa.ops.logistic_mixture import MAX_EXACT_CLASSES
from solfa.ops.temperature import TemperatureSemantics
from solfa.solvers.config import SolverConfig, StageConfig
from solfa.solvers.fabric.devices import gather_objects
from solfa.solvers.fabric.wrappers import is_wrapped_module, unwrapped
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.loop.update import unsynchronised
from solfa.solvers.optim.optimizer import build_optimizer
from solfa.solvers.standard import StandardSolver


class SashimiModelConfig(SashimiConfig):
    """The network and its head, written `output_head: dml` and, beside it, `n_mixtures: 10`."""

    output_head: HeadConfig = CategoricalHeadConfig()

    @model_validator(mode="before")
    @classmethod
    def _read_head(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        read = dict(values)
        head, n_mixtures = read.pop("output_head", None), read.pop("n_mixtures", None)
        if head is None:
            head = CategoricalHeadConfig().kind
        if isinstance(head, str):
            head = {"kind": head}
        if n_mixtures is not None and isinstance(head, Mapping):
            if head.get("kind") == CategoricalHeadConfig().kind:
                raise ValueError(f"n_mixtures: found {n_mixtures} beside a categorical head, which has none; remove it")
            head = {**head, "n_mixtures": n_mixtures}
        return {**read, "output_head": head}


class SashimiGenerateConfig(StageConfig):
    """What is generated to listen to while training."""

    num_clips: PositiveInt = 4
    seconds: float = Field(default=2.0, gt=0)
    sampling: WaveformSampling = WaveformSampling()


class SashimiSolverConfig(SolverConfig):
    """A model of waveforms."""

    model: SashimiModelConfig
    truncate_seconds: float | None = Field(default=None, gt=0)
    """Go back in time only so far: a row is read in pieces, each beginning with the state that the one before left, so
    that memory is that of a piece. None: through the whole row."""
    generate: SashimiGenerateConfig = SashimiGenerateConfig()


class Piece(NamedTuple):
    """Some samples of every row, and what is read to predict them."""

    inputs: Int64[Tensor, "B n"]
    classes: Int64[Tensor, "B n"]
    mask: Bool[Tensor, "B n"]


class SashimiSolver(StandardSolver[SashimiSolverConfig]):
    """The task of predicting the next sample."""

    Config: ClassVar[type[SolverConfig]] = SashimiSolverConfig

    def build_model(self) -> None:
        """Size the network by the grid of the data, and start its last layer as the head wants it."""
        cfg = self.cfg
        self.codec = self._waveform_codec()
        self.head: OutputHead = cfg.model.output_head.build(self.codec.grid.num_classes)
        self.model = Sashimi(cfg.model.sized(self.head.num_classes), self.head.num_parameters)
        self.head.initialize(self.model.projection)
        self.optimizer = build_optimizer(self.model, cfg.optim)
        self.register_stateful("model", "optimizer")
        self.register_best("model")
        self.register_ema("model")

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
        """Add what the loss is in bits."""
        return {**means, "bits_per_sample": means["loss"] / math.log(2)}

    def generate(self) -> Metrics:
        """Draw clips from nothing, and show them to whoever watches."""
        wanted = self.cfg.generate
        num_samples = segment_frames(wanted.seconds, self.codec.frame_rate)
        seeds = [stable_key("generate", self.cfg.seed, self.epoch, index) % 2**63 for index in range(wanted.num_clips)]
        requests = [WaveformRequest(f"{index:03d}", num_samples, seed) for index, seed in enumerate(seeds)]
        mine = requests[self.fabric.global_rank :: self.fabric.world_size]
        drawn = list(generate_waveforms(self.network, self.head, self.codec, mine, wanted.sampling, self._tick))
        everyone = [likely for part in gather_objects(self.fabric, drawn) for likely in part]
        if self.is_first_rank:
            self.experiment.watcher.clips("generate", self.epoch, [likely.clip for likely in everyone])
        bits = [likely.bits_per_sample for likely in everyone]
        return {"clips": float(len(everyone)), "bits_per_sample": sum(bits) / len(bits)}

    def generate_audio(
        self, requests: Sequence[AudioRequest], options: Mapping[str, Any], on_step: Progress
    ) -> Iterator[GeneratedClip]:
        """Generate what is asked for; `options` may hold what `generate.sampling` does, and which shares to reject.

        Where some are rejected, clips come when all are drawn, the most likely first.
        """
        return self.stream_audio(requests, options, on_step, None)

    def stream_audio(
        self,
        requests: Sequence[AudioRequest],
        options: Mapping[str, Any],
        on_step: Progress,
        on_audio: OnAudio | None,
    ) -> Iterator[GeneratedClip]:
        """Generate, and hand over what is drawn of all clips, of those that will be rejected, too."""
        chosen = {**self.cfg.generate.sampling.model_dump(), **options}
        choices = parse_config(WaveformChoices, chosen, "options")
        shares = choices.reject_lowest, choices.reject_highest
        if choices.rejects:
            kept_ranks(len(requests), *shares)  # an error comes now, and not after hours of drawing
        wanted = [self._request(request) for request in requests]
        drawn = generate_waveforms(self.network, self.head, self.codec, wanted, choices.sampling, on_step, on_audio)
        return (likely.clip for likely in (_kept(drawn, *shares) if choices.rejects else drawn))

    @property
    def temperature_kinds(self) -> tuple[TemperatureSemantics, ...]:
        """Name what a temperature may mean: for a mixture a short cut, and what it stands for if classes are few."""
        if isinstance(self.head, CategoricalHead):
            return ("exact",)
        return ("heuristic", "exact") if self.head.num_classes <= MAX_EXACT_CLASSES else ("heuristic",)

    @property
    def network(self) -> Sashimi:
        """The model as it was built, without what spreads it over devices."""
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
            # So that it goes through what spreads the model over devices, as `forward` does.
            self.model.mark_forward_method("forward_with_state")  # type: ignore[operator]
        outputs, last = self.model.forward_with_state(inputs, state)
        return outputs, last.map(Tensor.detach)

    def _descend(self, loss: Tensor, is_last: bool) -> Tensor | None:
        """Add to the gradients; with the last piece, make the update."""
        before = self._accumulates
        self._accumulates = before or not is_last
        try:
            return self.update(loss)
        finally:
            self._accumulates = before

    def _statistics(self, outputs: Tensor, mask: Tensor, count: Tensor) -> dict[str, Tensor]:
        """Sum what the head has to say; in training about one row, because it takes as much memory as the loss."""
        rows = slice(1 if self.is_training else None)
        found = self.head.statistics(outputs[rows], mask[rows])
        return {name: value * count for name, value in found.items()}

    def _request(self, request: AudioRequest) -> WaveformRequest:
        if request.text is not None or request.attributes:
            told = "a text" if request.text is not None else ", ".join(request.attributes)
            raise ConfigError(f"clip {request.name!r}: this experiment knows no conditions, found {told}; leave it out")
        prompt = None
        if request.prompt is not None:
            audio = torch.from_numpy(read_prompt(request, self.codec.sample_rate, self.codec.num_channels))
            prompt = self.codec.encode(audio[None]).array[0, :, 0].long()
        num_samples = segment_frames(request.seconds, self.codec.frame_rate)
        return WaveformRequest(request.name, num_samples, request.seed, prompt)

    def _tick(self, done: int, total: int) -> None:
        self.stop_if_asked()

    def _waveform_codec(self) -> WaveformCodec:
        """Load the codec of the data: its grid is what classes mean."""
        codec = load_codec(str(self.data_facts["codec"]))
        if not isinstance(codec, WaveformCodec):
            raise ConfigError(
                f"dset: SaShiMi models waveforms, as mulaw and linear store them, found {codec.name}; "
                "encode the audio with mulaw:bits=8,sample_rate=16000"
            )
        if codec.num_channels != 1:
            raise ConfigError(
                f"dset: SaShiMi models one channel, found {codec.num_channels}; encode the audio with num_channels=1"
            )
        if self.cfg.dataset is not None and isinstance(self.cfg.dataset.mode, PackRows):
            raise ConfigError("dataset.mode: packed rows join clips that do not follow each other; use crop or pad")
        return codec


def _kept(drawn: Iterator[LikelyClip], lowest: float, highest: float) -> Iterator[LikelyClip]:
    yield from keep_likely(list(drawn), lowest, highest)
