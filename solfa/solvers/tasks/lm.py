"""Train a codec language model: cross-entropy per codebook on laid-out codes, and clips to listen to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from jaxtyping import Float, Int64
from torch import Tensor, nn

from solfa.codecs.protocol import Codec
from solfa.config import nearest, parse_config
from solfa.data.attributes import attribute_rows, drop_attributes
from solfa.data.batching.collation import Batch
from solfa.data.batching.stage_batches import PackRows
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.codes import ClipRequest, Progress, generate_clips
from solfa.generate.request import AudioRequest
from solfa.models.conditioners.set import ConditionerSet, ConditionsConfig
from solfa.models.conditioners.text import TextConditioner, TextConfig
from solfa.models.lm.conditions import Conditions
from solfa.models.lm.generation import GenerationSettings
from solfa.models.lm.musicgen import load_musicgen, save_musicgen
from solfa.models.lm.network import CodecLM, CodecLMConfig, cross_entropy, inputs_and_targets
from solfa.nn.linears.half import halve_linears
from solfa.nn.linears.int8 import quantise_linears
from solfa.nn.linears.packed import pack_linears
from solfa.solvers.config import SolverConfig
from solfa.solvers.fabric.devices import gather_objects
from solfa.solvers.fabric.wrappers import unwrapped
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.optim.optimizer import build_optimizer
from solfa.solvers.standard import StandardSolver
from solfa.solvers.state.registry import load_module
from solfa.solvers.tasks.shared_codes import (
    CodesGenerateConfig,
    check_decoding,
    codes_array,
    load_fitting_codec,
    mean_nats,
    prompt_codes,
    requests_like,
    with_perplexity,
)

LAY_OUT_WEIGHTS: dict[str, Callable[[CodecLM], CodecLM]] = {
    "fp32": pack_linears,
    "fp16": halve_linears,
    "int8": quantise_linears,
}
"""How the weights of a model that only generates may stand in memory, by what `solfa generate --weights` takes."""


class LMConfig(SolverConfig):
    """A codec language model and what it is conditioned on."""

    model: CodecLMConfig
    conditioner: ConditionsConfig = ConditionsConfig()
    generate: CodesGenerateConfig = CodesGenerateConfig()
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
        self.array = codes_array(self.data_facts)
        assert self.array.codebook_size is not None
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
            check_decoding(self.load_codec(), self.array)

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
        return {**metrics, **mean_nats(nats, mask)}

    def summarise(self, means: Metrics) -> Metrics:
        return with_perplexity(means)

    def generate(self) -> Metrics:
        """Generate clips conditioned as those of the generate dataset, and show them to whoever watches."""
        wanted = self.cfg.generate
        rank, world_size = self.fabric.global_rank, self.fabric.world_size
        seed, columns = (self.cfg.seed, self.epoch), self.cfg.conditioner.sources
        source = self.sources["generate"]
        requests = requests_like(source, wanted, self.array.frame_rate, columns, seed, self.device)[rank::world_size]
        # The codec is loaded for this and let go afterwards: training needs its memory.
        clips = list(self._generate_clips(self.load_codec(), requests, wanted.sampling, self._tick))
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
        yield from self._generate_clips(codec, clips, settings, on_step)

    def _generate_clips(
        self, codec: Codec, requests: Sequence[ClipRequest], settings: GenerationSettings, on_step: Progress
    ) -> Iterator[GeneratedClip]:
        network = self.network
        return generate_clips(network.lm, network.conditioners.prepare, codec, requests, settings, on_step)

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
        prompt = prompt_codes(request, codec, self.device)
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
        return load_fitting_codec(self.cfg.codec or str(self.data_facts["codec"]), self.array, self.device)

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
