"""Train a codec language model: cross-entropy per codebook on laid-out codes, and clips to listen to."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from solfa.codecs.loading import load_codec
from solfa.codecs.protocol import Codec, Encoded
from solfa.config import nearest, parse_config
from solfa.data.attributes import attribute_rows, drop_attributes
from solfa.data.collate import Batch
from solfa.data.segments import stable_key
from solfa.data.stages import PackRows
from solfa.errors import ConfigError
from solfa.models.conditioners.set import ConditionerSet, ConditionsConfig
from solfa.models.conditioners.text import TextConditioner, TextConfig
from solfa.models.conditions import Conditions
from solfa.models.generation import GenerationSettings
from solfa.models.lm import CodecLM, CodecLMConfig, cross_entropy, inputs_and_targets
from solfa.models.musicgen import load_musicgen, save_musicgen
from solfa.nn.half import halve_linears
from solfa.nn.int8 import quantise_linears
from solfa.nn.packed import pack_linears
from solfa.solvers.averages import Metrics
from solfa.solvers.config import SolverConfig, StageConfig
from solfa.solvers.devices import gather_objects
from solfa.solvers.lm_generation import ClipRequest, Progress, generate_clips
from solfa.solvers.optim import build_optimizer
from solfa.solvers.registry import load_module
from solfa.solvers.requests import AudioRequest, read_prompt
from solfa.solvers.standard import StandardSolver
from solfa.solvers.watching import GeneratedClip
from solfa.solvers.wrapping import unwrapped
from solfa.store.schema import ArraySpec

LAY_OUT_WEIGHTS: dict[str, Callable[[CodecLM], CodecLM]] = {
    "fp32": pack_linears,
    "fp16": halve_linears,
    "int8": quantise_linears,
}
"""How the weights of a model that only generates may stand in memory, by what `solfa generate --weights` takes."""


class LMGenerateConfig(StageConfig):
    """What is generated to listen to while training: as many clips, conditioned as those of the generate dataset."""

    num_clips: PositiveInt = 4
    seconds: float = Field(default=10.0, gt=0)
    prompt_seconds: float = Field(default=0.0, ge=0)
    """Begin with so much of the dataset's clip and go on from there."""
    sampling: GenerationSettings = GenerationSettings()


class LMConfig(SolverConfig):
    """A codec language model and what it is conditioned on."""

    model: CodecLMConfig
    conditioner: ConditionsConfig = ConditionsConfig()
    generate: LMGenerateConfig = LMGenerateConfig()
    codec: str | None = None
    """What decodes generated codes; None: the codec that the dataset was encoded with."""


class ConditionedLM(nn.Module):
    """A language model and its conditioners as one network: one forward, one optimiser, one checkpoint."""

    def __init__(self, lm: CodecLM, conditioners: ConditionerSet) -> None:
        super().__init__()
        self.lm, self.conditioners = lm, conditioners

    def forward(self, inputs: Int64[Tensor, "B K S"], tokens: Mapping[str, Any]) -> Float[Tensor, "B K S V"]:
        """Give the logits of what follows each step."""
        conditions: Conditions = self.conditioners(tokens)
        logits: Tensor = self.lm(inputs, conditions)
        return logits


class LMSolver(StandardSolver[LMConfig]):
    """The task of predicting the next codes."""

    Config: ClassVar[type[SolverConfig]] = LMConfig

    _weights: str | None = None
    """How the weights were laid out to generate; None while they can be trained."""

    def build_model(self) -> None:
        """Size the model by the data, and its conditioners by the config."""
        cfg = self.cfg
        self.array = ArraySpec.model_validate(self.data_facts["array"])
        if self.array.kind != "codes" or self.array.codebook_size is None:
            raise ConfigError(f"dset: a language model reads codes, found {self.array.kind}; encode with another codec")
        if cfg.dataset is not None and isinstance(cfg.dataset.mode, PackRows) and cfg.conditioner.conditioners:
            raise ConfigError(
                "dataset.mode: packed rows hold several clips, each with its own caption; use crop or pad"
            )
        conditioners = ConditionerSet(cfg.conditioner, cfg.model.dim)
        sized = cfg.model.sized(
            self.array.width, self.array.codebook_size, cross_attention=cfg.conditioner.uses_cross_attention
        )
        if self.sources:
            columns = cfg.conditioner.sources
            conditioners.fit({name: self.sources["train"].values(columns[name]) for name in conditioners.to_fit})
        self.model = ConditionedLM(CodecLM(sized), conditioners)
        self.optimizer = build_optimizer(self.model, cfg.optim)
        self.register_stateful("model", "optimizer")
        self.register_best("model")
        self.register_ema("model")
        if cfg.generate.every is not None and self.sources:
            # A codec that cannot decode is found out now, not after hours of training.
            codec = self.load_codec()
            codec.decode(Encoded(torch.zeros(1, 1, self.array.width, dtype=torch.int64), codec.hop_length))

    def best_metric(self) -> str:
        return "loss"

    def batch_weight(self, batch: Batch) -> float:
        return float(batch.mask.sum())

    def run_step(self, idx: int, batch: Batch, metrics: Metrics) -> Metrics:
        codes, mask = batch.arrays.transpose(1, 2), batch.mask
        network = self.network
        laid = inputs_and_targets(codes, mask, network.lm.layout(codes.shape[2]), network.lm.special)
        logits = self.model(laid.inputs, network.conditioners.tokenize(self._rows(batch)))
        nats = cross_entropy(logits, laid.targets, laid.mask)
        if self.is_training:
            # The mean over the global batch once the processes' gradients are averaged.
            share = self.fabric.world_size / (len(nats) * batch.global_frames)
            metrics["grad_norm"] = self.update(nats.sum() * share)
        per_frame = nats.detach() / mask.sum().clamp(min=1)
        metrics["loss"] = per_frame.mean()
        if len(nats) > 1:
            metrics.update({f"ce_q{k + 1}": value for k, value in enumerate(per_frame)})
        return metrics

    def summarise(self, means: Metrics) -> Metrics:
        """Add the perplexity, which is no mean of perplexities."""
        return {**means, "ppl": math.exp(min(means["loss"], 80.0))}

    def generate(self) -> Metrics:
        """Generate clips conditioned as those of the generate dataset, and show them to whoever watches."""
        wanted = self.cfg.generate
        rank, world_size = self.fabric.global_rank, self.fabric.world_size
        requests = self._requests_from_data(wanted.num_clips)[rank::world_size]
        # The codec is loaded for this and let go afterwards: training needs its memory.
        clips = list(generate_clips(self.network, self.load_codec(), requests, wanted.sampling, self._tick))
        everyone = [clip for clips in gather_objects(self.fabric, clips) for clip in clips]
        if self.is_first_rank:
            self.experiment.watcher.clips("generate", self.epoch, everyone)
        return {"clips": float(len(everyone))}

    def generate_audio(
        self, requests: Sequence[AudioRequest], options: Mapping[str, Any], on_step: Progress
    ) -> Iterator[GeneratedClip]:
        """Generate what is asked for; `options` may hold what `generate.sampling` does, and `weights`."""
        chosen = {**self.cfg.generate.sampling.model_dump(), **options}
        # Nothing is trained or saved with this model, so its weights may stand as generation reads them fastest.
        self._lay_out_weights(str(chosen.pop("weights", "fp32")))
        settings = parse_config(GenerationSettings, chosen, "options")
        codec = self.load_codec()
        clips = [self._request(request, codec) for request in requests]
        yield from generate_clips(self.network, codec, clips, settings, on_step)

    def _lay_out_weights(self, weights: str) -> None:
        if weights not in LAY_OUT_WEIGHTS:
            known = ", ".join(LAY_OUT_WEIGHTS)
            raise ConfigError(f"weights: expected one of {known}, found {weights!r}{nearest(weights, LAY_OUT_WEIGHTS)}")
        if self._weights not in (None, weights):
            raise ConfigError(f"weights: this model stands as {self._weights} already; open it anew for {weights}")
        if self._weights is None:
            LAY_OUT_WEIGHTS[weights](self.network.lm)
            self._weights = weights

    def _request(self, request: AudioRequest, codec: Codec) -> ClipRequest:
        attributes = dict(request.attributes)
        if request.text is not None:
            name = self._text_attribute()
            if name in attributes:
                raise ConfigError(f"text: {name} is given twice, as text and by its name; keep one")
            attributes[name] = request.text
        prompt = None
        if request.prompt is not None:
            audio = torch.from_numpy(read_prompt(request, codec.sample_rate, codec.num_channels))
            prompt = codec.encode(audio[None]).array[0].long().transpose(0, 1).to(self.device)
        return ClipRequest(request.name, request.seconds, request.seed, attributes, prompt)

    def _text_attribute(self) -> str:
        config = self.cfg.conditioner
        texts = [name for name, part in config.conditioners.items() if isinstance(part, TextConfig)]
        if len(texts) != 1:
            known = ", ".join(config.conditioners) or "nothing"
            raise ConfigError(
                f"text: expected an experiment with one text condition, found {len(texts)}; it is conditioned on "
                f"{known}: leave the text out, or give values by name"
            )
        return texts[0]

    def _tick(self, done: int, total: int) -> None:
        self.stop_if_asked()

    def load_pretrained(self, location: str) -> str:
        """Start from a MusicGen checkpoint in the layout of transformers: a directory or a Hub id."""
        loaded = load_musicgen(location.removeprefix("//pretrained/"))
        load_module("model.lm", self.network.lm, loaded.model.state_dict())
        told = f"took the language model from {location}"
        if loaded.text_projection is not None:
            self._text_conditioner(location).output_proj.load_state_dict(loaded.text_projection)
            told += " and the projection of its text"
        elif loaded.is_whole:
            # Its text encoder has the decoder's width, so that nothing stands between them.
            projection = self._text_conditioner(location).output_proj
            nn.init.eye_(projection.weight)
            nn.init.zeros_(projection.bias)
        return told + "; everything else starts afresh"

    def export_model(self, directory: Path, source: str | None) -> str:
        """Write a MusicGen checkpoint: the decoder alone, or all of `source`, from which it was tuned."""
        has_projection = source is not None and load_musicgen(source).text_projection is not None
        projection = self._text_conditioner(str(source)).output_proj.state_dict() if has_projection else None
        save_musicgen(self.network.lm, directory, source=source, text_projection=projection)
        return "a MusicgenForCausalLM" if source is None else f"a MusicGen model with the other parts of {source}"

    def _text_conditioner(self, location: str) -> TextConditioner:
        parts = self.network.conditioners.conditioners.values()
        found = [part for part in parts if isinstance(part, TextConditioner)]
        if len(found) != 1:
            raise ConfigError(
                f"{location}: it is conditioned on text, so it needs one text conditioner, "
                f"found {len(found)}; choose conditioner=text"
            )
        return found[0]

    @property
    def network(self) -> ConditionedLM:
        """The model as it was built, without what spreads it over devices."""
        network = unwrapped(self.model)
        assert isinstance(network, ConditionedLM)
        return network

    def load_codec(self) -> Codec:
        """Load the codec that turns generated codes into sound, and check that it fits them."""
        text = self.cfg.codec or str(self.data_facts["codec"])
        codec = load_codec(text, device=str(self.device))
        if (codec.num_codebooks, codec.codebook_size) != (self.array.width, self.array.codebook_size):
            raise ConfigError(
                f"codec {text}: expected {self.array.width} codebooks of {self.array.codebook_size}, found "
                f"{codec.num_codebooks} of {codec.codebook_size}; give the codec of the dataset as codec=TEXT"
            )
        return codec

    def _rows(self, batch: Batch) -> list[dict[str, Any]]:
        config = self.cfg.conditioner
        rows = attribute_rows(batch.captions, batch.metadata, config.sources)
        if not self.is_training:
            return rows
        return drop_attributes(
            rows,
            batch.ids,
            guidance_dropout=config.guidance_dropout,
            dropouts=config.dropouts,
            seed=self.cfg.seed,
            epoch=batch.epoch,
        )

    def _requests_from_data(self, count: int) -> list[ClipRequest]:
        """Ask for clips like the first ones of the generate dataset."""
        source, wanted = self.sources["generate"], self.cfg.generate
        prompt_frames = round(wanted.prompt_seconds * self.array.frame_rate)
        if prompt_frames and wanted.prompt_seconds >= wanted.seconds:
            raise ConfigError(
                f"generate.prompt_seconds: expected less than seconds ({wanted.seconds}), found {wanted.prompt_seconds}"
            )
        requests = []
        for index in range(min(count, len(source))):
            clip = source[index]
            (attributes,) = attribute_rows([clip.caption], [clip.metadata], self.cfg.conditioner.sources)
            codes = torch.from_numpy(clip.array[:prompt_frames].astype(np.int64)).transpose(0, 1)
            requests.append(
                ClipRequest(
                    name=f"{index:03d}",
                    seconds=wanted.seconds,
                    seed=stable_key("generate", self.cfg.seed, self.epoch, clip.id) % 2**63,
                    attributes=attributes,
                    prompt=codes.to(self.device) if prompt_frames else None,
                )
            )
        return requests
