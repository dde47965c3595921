"""Train audio experts on a frozen text model: captions before codes, cross-entropy of the codes alone."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import PositiveInt, model_validator

from solfa.data.attributes import attribute_rows, drop_attributes
from solfa.data.batching.collation import Batch
from solfa.data.batching.stage_batches import Batching
from solfa.errors import ConfigError
from solfa.generate.data_codec import DataCodec, check_decoding, codes_array
from solfa.generate.request import ClipRequest
from solfa.generate.text_model import TEXT, TextModel
from solfa.models.conditioners.text import as_text
from solfa.models.lm.codes_shape import of_codes
from solfa.models.lm.network import cross_entropy
from solfa.models.mot.assembly import build_mot
from solfa.models.mot.config import MoTConfig
from solfa.models.mot.network import MoT
from solfa.models.mot.texts import Texts, TextsConfig
from solfa.ops.patterns import frames_within
from solfa.solvers.config import SolverConfig
from solfa.solvers.fabric.wrappers import unwrapped
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.optim.optimizer import build_optimizer
from solfa.solvers.plan.expected_loss import ExpectedLoss, uniform_guess
from solfa.solvers.standard import StandardSolver
from solfa.solvers.tasks.shared_codes import (
    CodesGenerateConfig,
    code_bits_per_second,
    descend,
    requests_like,
    with_perplexity,
)
from solfa.solvers.tasks.shared_conditions import described_requests, refuse_packing

_logger = logging.getLogger(__name__)


class MoTSolverConfig(SolverConfig):
    """A text model with audio experts, and the texts it reads."""

    model: MoTConfig
    text: TextsConfig = TextsConfig()
    generate: CodesGenerateConfig = CodesGenerateConfig()
    codec: str | None = None
    """The codec that decodes generated codes; None uses the one that the dataset was encoded with."""
    max_sequence_length: PositiveInt | None = None
    """The most tokens of a text and steps of its audio together; shortens texts if `max_audio_tokens` is set, else the
    audio."""
    max_audio_tokens: PositiveInt | None = None
    """The most steps that the layout may make of the codes of a clip; with `flat`, a step is one code."""

    @model_validator(mode="after")
    def _text_and_audio_fit(self) -> "MoTSolverConfig":
        whole, audio = self.max_sequence_length, self.max_audio_tokens
        if whole is None:
            return self
        if audio is None:
            if whole <= self.text.max_tokens:
                raise ValueError(
                    f"max_sequence_length: expected more than text.max_tokens ({self.text.max_tokens}), found {whole}; "
                    "lower text.max_tokens, or set max_audio_tokens"
                )
            return self
        if whole <= audio:
            raise ValueError(
                f"max_audio_tokens: expected fewer than max_sequence_length ({whole}), found {audio}; texts need some"
            )
        shorter = self.text.model_copy(update={"max_tokens": min(self.text.max_tokens, whole - audio)})
        return self.model_copy(update={"text": shorter})

    @model_validator(mode="after")
    def _adapter_keeps_graphs(self) -> "MoTSolverConfig":
        if self.adapter is not None and self.model.checkpoint_layers:
            raise ValueError("model.checkpoint_layers: an adapter keeps the graph of the text; leave it out")
        return self

    @property
    def max_audio_steps(self) -> int | None:
        """The limit of the audio; None without one."""
        if self.max_audio_tokens is None and self.max_sequence_length is not None:
            return self.max_sequence_length - self.text.max_tokens
        return self.max_audio_tokens


class MoTSolver(StandardSolver[MoTSolverConfig]):
    """Learns to predict codes after a text."""

    Config: ClassVar[type[SolverConfig]] = MoTSolverConfig
    Generator = TextModel

    def build_model(self) -> None:
        """Load the base and the donor, and size the audio side to the data."""
        cfg = self.cfg
        self.array = codes_array(self.data_facts)
        assert self.array.codebook_size is not None
        refuse_packing(cfg.dataset)
        self.model = build_mot(of_codes(cfg.model, self.array.width, self.array.codebook_size))
        self.texts = Texts(cfg.text, self.model.base)
        self._expect_texts()
        self.add_adapter()
        self.optimizer = build_optimizer(self.model, cfg.optim)
        self.register_stateful("model", "optimizer")
        self.register_best("model")
        self.register_ema("model")
        if cfg.generate.every is not None:
            check_decoding(self.generator().codec, self.array)

    def batching(self, wanted: Batching) -> Batching:
        """Shorten clips to the limit of audio tokens, if there is one."""
        steps = self.cfg.max_audio_steps
        if steps is None:
            return wanted
        array, layout = codes_array(self.data_facts), self.cfg.model.layout
        num_frames = frames_within(layout, array.width, steps)
        if num_frames < 1:
            raise ConfigError(
                f"max_audio_tokens: {steps} do not hold one frame of {array.width} codebooks with the layout "
                f"{layout.kind}; raise it"
            )
        _logger.info(
            "%d audio tokens hold %d frames (%.2f s) of %d codebooks with the layout %s",
            *(steps, num_frames, num_frames / array.frame_rate, array.width, layout.kind),
        )
        return wanted.limited(num_frames, array.frame_rate)

    def best_metric(self) -> str:
        return "loss"

    def batch_weight(self, batch: Batch) -> float:
        return float(batch.mask.sum())

    def run_step(self, idx: int, batch: Batch, metrics: Metrics) -> Metrics:
        codes, mask = batch.arrays.transpose(1, 2), batch.mask
        texts = self._texts(batch)
        # An adapter of the text model learns through what it makes of the texts.
        whole = self.cfg.model.prefix_graph or (self.is_training and self.cfg.adapter is not None)
        read = self.texts.ids(texts) if whole else self.texts.prefix(texts)
        logits = self.model(codes, mask, read)
        nats = cross_entropy(logits, codes, mask[:, None].expand_as(codes))
        return descend(self, nats, batch, metrics)

    def summarise(self, means: Metrics) -> Metrics:
        return with_perplexity(means)

    def generate(self) -> Metrics:
        """Generate clips with the texts of the generate dataset."""
        source, seed = self.sources["generate"], self.cfg.seed
        requests = requests_like(source, self.cfg.generate, self.array.frame_rate, self._columns, seed)
        return {"clips": float(len(self.draw_clips(self.generator(), self._told(requests))))}

    def _told(self, requests: Sequence[ClipRequest]) -> list[ClipRequest]:
        """Make the column of the data what the model is told: its text."""
        column = self.cfg.text.source
        return [
            replace(request, text=as_text(request.conditions[TEXT], column) or None, conditions={})
            for request in requests
        ]

    def judged_requests(self, num_clips: int, seconds: float) -> list[ClipRequest]:
        source, seed = self.sources["evaluate"], self.cfg.seed
        return self._told(described_requests(source, num_clips, seconds, self._columns, seed))

    def judged_generator(self) -> TextModel:
        return self.generator()

    def bits_per_second(self, means: Metrics) -> float:
        return code_bits_per_second(means, self.array)

    def generator(self) -> TextModel:
        """Build a generator around the current weights; its codec is freed with it, as training needs the memory."""
        data_codec = DataCodec(self.cfg.codec or str(self.data_facts["codec"]), self.array)
        return TextModel(self.network, self.texts, data_codec, self.cfg.generate.sampling)

    def expected_losses(self) -> list[ExpectedLoss]:
        assert self.array.codebook_size is not None
        return [uniform_guess(self.array.codebook_size)]

    def conditions_as_read(self, batch: Batch) -> list[dict[str, str]]:
        rows = attribute_rows(batch.captions, batch.metadata, self._columns)
        return [{TEXT: self.texts.spell(row[TEXT])} for row in rows]

    @property
    def network(self) -> MoT:
        """The model itself, without Fabric's wrapper."""
        network = unwrapped(self.model)
        assert isinstance(network, MoT)
        return network

    @property
    def _columns(self) -> dict[str, str]:
        return {TEXT: self.cfg.text.source}

    def _expect_texts(self) -> None:
        """Refuse data without any text: a model meant to follow captions would learn to ignore them."""
        if self.cfg.text.dropout < 1 and not any(self.sources["train"].values(self.cfg.text.source)):
            raise ConfigError(
                f"text.source: no training clip has a {self.cfg.text.source}; name a column that holds text, "
                "join a table of captions to the dataset, or set text.dropout=1 to train without texts"
            )

    def _texts(self, batch: Batch) -> list[Any]:
        rows = attribute_rows(batch.captions, batch.metadata, self._columns)
        # A model trained without texts is evaluated without them, too.
        dropout = self.cfg.text.dropout if self.is_training else float(self.cfg.text.dropout == 1)
        dropped = drop_attributes(
            rows, batch.ids, guidance_dropout=dropout, dropouts={}, seed=self.cfg.seed, epoch=batch.epoch
        )
        return [row[TEXT] for row in dropped]
