"""Generate with SaShiMi: samples drawn one after another, streamed as they are drawn, with exact likelihoods."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from solfa.codecs.catalogue import load_codec
from solfa.codecs.families.quantized import WaveformCodec
from solfa.config import Config, parse_config
from solfa.data.batching.stage_batches import segment_frames
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.generator import OnStep
from solfa.generate.options import with_options
from solfa.generate.request import ClipRequest, read_prompt
from solfa.generate.stream import OnAudio
from solfa.generate.waveforms import (
    LikelyClip,
    WaveformChoices,
    WaveformJob,
    generate_waveforms,
    keep_likely,
    kept_ranks,
)
from solfa.models.sashimi.config import SashimiModelConfig
from solfa.models.sashimi.heads import CategoricalHead, OutputHead
from solfa.models.sashimi.network import Sashimi, previous_classes
from solfa.ops.logistic_mixture import MAX_EXACT_CLASSES
from solfa.ops.temperature import TemperatureSemantics


@final
class WaveformModel:
    """A `ClipGenerator` around a SaShiMi, its head and the grid of its data."""

    Options: ClassVar[type[Config]] = WaveformChoices

    def __init__(self, network: Sashimi, head: OutputHead, codec: WaveformCodec, sampling: WaveformChoices) -> None:
        self.network, self.head, self.codec, self.sampling = network, head, codec, sampling

    @classmethod
    def build(cls, config: Mapping[str, Any], data_facts: Mapping[str, Any]) -> "WaveformModel":
        """Size the network to the data's grid, and initialise its last layer for the head."""
        model = parse_config(SashimiModelConfig, config["model"], "model")
        stage = config.get("generate") or {}
        sampling = parse_config(WaveformChoices, stage.get("sampling") or {}, "generate.sampling")
        codec = waveform_codec(data_facts)
        return cls(*build_sashimi(model, codec), codec, sampling)

    @property
    def conditions(self) -> Mapping[str, str]:
        return {}

    @property
    def temperature_kinds(self) -> tuple[TemperatureSemantics, ...]:
        """List the temperature semantics: a mixture has the heuristic, and the exact one if it has few classes."""
        if isinstance(self.head, CategoricalHead):
            return ("exact",)
        return ("heuristic", "exact") if self.head.num_classes <= MAX_EXACT_CLASSES else ("heuristic",)

    def draw(
        self,
        requests: Sequence[ClipRequest],
        options: Mapping[str, Any],
        on_step: OnStep,
        on_audio: OnAudio | None = None,
    ) -> Iterator[GeneratedClip]:
        """Draw clips; if they are to be sorted, they come when all are drawn, the most likely first."""
        likely = self.draw_likely(requests, options, on_step, on_audio)
        return (one.clip for one in likely)

    def draw_likely(
        self,
        requests: Sequence[ClipRequest],
        options: Mapping[str, Any],
        on_step: OnStep,
        on_audio: OnAudio | None = None,
    ) -> Iterator[LikelyClip]:
        """Draw clips together with their likelihoods."""
        choices = with_options(self.sampling, options)
        shares = choices.reject_lowest, choices.reject_highest
        if choices.sorts:
            kept_ranks(len(requests), *shares)  # fail now, not after hours of drawing
        jobs = [self._job(request) for request in requests]
        drawn = generate_waveforms(self.network, self.head, self.codec, jobs, choices.sampling, on_step, on_audio)
        return _kept(drawn, *shares) if choices.sorts else drawn

    def log_prob(self, array: Tensor, text: str | None, conditions: Mapping[str, Any]) -> float:
        """Sum the log-probabilities, in nats, of all samples `[N, 1]` of a clip."""
        _refuse_conditions("log_prob", text, conditions)
        device = self.network.projection.weight.device
        classes = array.long()[None, :, 0].to(device)
        with torch.inference_mode():
            outputs = self.network.eval()(previous_classes(classes, self.network.start(1)))
            return float(self.head.log_prob(outputs, classes).double().sum())

    def _job(self, request: ClipRequest) -> WaveformJob:
        _refuse_conditions(f"clip {request.name!r}", request.text, request.conditions)
        num_samples = segment_frames(request.seconds, self.codec.frame_rate)
        return WaveformJob(request, num_samples, self._prompt(request))

    def _prompt(self, request: ClipRequest) -> Tensor | None:
        if request.prompt is None or isinstance(request.prompt, Tensor):
            return None if request.prompt is None else request.prompt[:, 0].long()
        audio = torch.from_numpy(read_prompt(request, self.codec.sample_rate, self.codec.num_channels))
        return self.codec.encode(audio[None]).array[0, :, 0].long()


def build_sashimi(model: SashimiModelConfig, codec: WaveformCodec) -> tuple[Sashimi, OutputHead]:
    """Build a network for a grid's classes, its last layer initialised for its head; a linear path is not fitted."""
    head: OutputHead = model.output_head.build(codec.grid)
    path = model.output_head.linear_path(codec.grid, model.dim)
    network = Sashimi(model.sized(head.num_classes), head.num_parameters, path)
    head.initialize(network.projection)
    return network, head


def waveform_codec(data_facts: Mapping[str, Any]) -> WaveformCodec:
    """Load the data's codec, whose grid says what the classes mean."""
    codec = load_codec(str(data_facts["codec"]))
    if not isinstance(codec, WaveformCodec):
        raise ConfigError(
            f"dset: SaShiMi needs waveforms encoded with mulaw or linear, found {codec.name}; "
            "encode the audio with mulaw:bits=8,sample_rate=16000"
        )
    if codec.num_channels != 1:
        raise ConfigError(
            f"dset: SaShiMi needs mono audio, found {codec.num_channels} channels; encode it with num_channels=1"
        )
    return codec


def _kept(drawn: Iterator[LikelyClip], lowest: float, highest: float) -> Iterator[LikelyClip]:
    yield from keep_likely(list(drawn), lowest, highest)


def _refuse_conditions(where: str, text: str | None, conditions: Mapping[str, Any]) -> None:
    if text is not None or conditions:
        told = "`text`" if text is not None else f"`conditions` ({', '.join(conditions)})"
        raise ConfigError(f"{where}: this model takes no conditions, found {told}; leave it out")
