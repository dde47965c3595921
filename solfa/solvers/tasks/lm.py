"""Train a codec language model: cross-entropy per codebook on laid-out codes, and clips to listen to."""

from typing import ClassVar

import torch
from jaxtyping import Int64
from torch import Tensor

from solfa.data.attributes import draw_hidden
from solfa.data.batching.collation import Batch
from solfa.generate.data_codec import DataCodec, check_decoding, codes_array
from solfa.generate.language_model import LanguageModel
from solfa.generate.request import ClipRequest
from solfa.models.conditioners.set import ConditionsConfig
from solfa.models.conditioners.text import TextConditioner
from solfa.models.lm.candidates import CandidateSettings
from solfa.models.lm.conditioned import ConditionedLM, build_conditioned_lm
from solfa.models.lm.costs import kept_floats, operations
from solfa.models.lm.musicgen import check_musicgen, is_musicgen_location
from solfa.models.lm.network import CodecLMConfig, cross_entropy, hide_beginnings, inputs_and_targets
from solfa.pretrained.origin import Origin, origin
from solfa.solvers.config import SolverConfig
from solfa.solvers.fabric.wrappers import unwrapped
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.optim.optimizer import build_optimizer
from solfa.solvers.plan.expected_loss import ExpectedLoss, uniform_guess
from solfa.solvers.plan.outline import FLOAT_BYTES, Outline, longest_row
from solfa.solvers.standard import StandardSolver
from solfa.solvers.tasks.shared_codecs import expect_codecs, refuse_scales
from solfa.solvers.tasks.shared_codes import (
    CodesGenerateConfig,
    code_bits_per_second,
    descend,
    requests_like,
    with_perplexity,
)
from solfa.solvers.tasks.shared_conditions import (
    condition_rows,
    described_requests,
    expect_columns,
    refuse_packing,
    spelled_conditions,
)


class LMGenerateConfig(CodesGenerateConfig):
    """Which clips to generate, and among how many each is chosen."""

    sampling: CandidateSettings = CandidateSettings()


class LMConfig(SolverConfig):
    """A codec language model and its conditioners."""

    model: CodecLMConfig
    conditioner: ConditionsConfig = ConditionsConfig()
    generate: LMGenerateConfig = LMGenerateConfig()
    codec: str | None = None
    """The codec that decodes generated codes; None uses the one that the dataset was encoded with."""


class LMSolver(StandardSolver[LMConfig]):
    """Learns to predict the next codes."""

    Config: ClassVar[type[SolverConfig]] = LMConfig
    Generator = LanguageModel

    @classmethod
    def check_start(cls, cfg: LMConfig) -> None:
        """Refuse codecs that a language model cannot learn from, and MusicGens that it cannot start from."""
        expect_codecs(cfg.dset, "codes", "a language model")
        if cfg.continue_from is not None and is_musicgen_location(cfg.continue_from):
            check_musicgen(cfg.continue_from.removeprefix("//pretrained/"))

    def build_model(self) -> None:
        """Size the model to the data, and build its conditioners from the config."""
        cfg = self.cfg
        self.array = codes_array(self.data_facts)
        if cfg.conditioner.conditioners:
            refuse_packing(cfg.dataset)
        self.model = self._build_network()
        self.add_adapter()
        self.optimizer = build_optimizer(self.model, cfg.optim)
        self.register_stateful("model", "optimizer")
        self.register_best("model")
        self.register_ema("model")
        if cfg.generate.every is not None:
            codec = self.generator().codec
            refuse_scales(codec, "a language model", "train on a dataset of another codec, such as encodec_32khz")
            check_decoding(codec, self.array)

    def outline(self) -> Outline:
        self.array = codes_array(self.data_facts)
        expect_columns(self.cfg.conditioner.sources, self.sources["train"])
        network = self._build_network()
        config = network.lm.config
        num_steps = network.lm.layout(longest_row(self.cfg.dataset, self.sources["train"])).shape[1]
        return Outline(
            {"model": network},
            kept_bytes=FLOAT_BYTES * num_steps * kept_floats(config),
            row_operations=operations(config, num_steps),
            smaller="use solver=lm/laptop or solver=lm/tiny",
        )

    def best_metric(self) -> str:
        return "loss"

    def batch_weight(self, batch: Batch) -> float:
        return float(batch.mask.sum())

    def run_step(self, idx: int, batch: Batch, metrics: Metrics) -> Metrics:
        codes, mask = batch.arrays.transpose(1, 2), batch.mask
        network = self.network
        rows = condition_rows(self.cfg.conditioner, batch, self.cfg.seed, drops=self.is_training)
        laid = inputs_and_targets(codes, mask, network.lm.layout(codes.shape[2]), network.lm.special)
        inputs = self._forgetful(laid.inputs, batch) if self.is_training else laid.inputs
        logits = self.model(inputs, network.conditioners.tokenize(rows))
        nats = cross_entropy(logits, laid.targets, laid.mask)
        return descend(self, nats, batch, metrics)

    def summarise(self, means: Metrics) -> Metrics:
        return with_perplexity(means)

    def generate(self) -> Metrics:
        """Generate clips with the conditions of the generate dataset's clips."""
        source, columns = self.sources["generate"], self.cfg.conditioner.sources
        requests = requests_like(source, self.cfg.generate, self.array.frame_rate, columns, self.cfg.seed)
        return {"clips": float(len(self.draw_clips(self.generator(), requests)))}

    def judged_requests(self, num_clips: int, seconds: float) -> list[ClipRequest]:
        source, columns = self.sources["evaluate"], self.cfg.conditioner.sources
        return described_requests(source, num_clips, seconds, columns, self.cfg.seed)

    def judged_generator(self) -> LanguageModel:
        return self.generator()

    def bits_per_second(self, means: Metrics) -> float:
        return code_bits_per_second(means, self.array)

    def generator(self) -> LanguageModel:
        """Build a generator around the current weights; its codec is freed with it, as training needs the memory."""
        data_codec = DataCodec(self.cfg.codec or str(self.data_facts["codec"]), self.array)
        return LanguageModel(self.network, data_codec, self.cfg.generate.sampling)

    def load_pretrained(self, location: str) -> str:
        """Start from a MusicGen checkpoint in transformers' layout: a directory or a Hub id."""
        return self.generator().load_pretrained(location)

    def expected_losses(self) -> list[ExpectedLoss]:
        assert self.array.codebook_size is not None
        return [uniform_guess(self.array.codebook_size)]

    def conditions_as_read(self, batch: Batch) -> list[dict[str, str]]:
        return spelled_conditions(self.cfg.conditioner, self.network.conditioners, batch)

    def frozen_parts(self) -> dict[str, Origin]:
        """Name the text encoders."""
        return {
            f"{name} encoder": origin(part.encoder.encoder, part.encoder.fingerprint)
            for name, part in self.network.conditioners.conditioners.items()
            if isinstance(part, TextConditioner)
        }

    @property
    def network(self) -> ConditionedLM:
        """The model itself, without Fabric's wrapper."""
        network = unwrapped(self.model)
        assert isinstance(network, ConditionedLM)
        return network

    def _forgetful(self, inputs: Int64[Tensor, "B K S"], batch: Batch) -> Int64[Tensor, "B K S"]:
        """Hide the beginnings of some clips, as the model's config says."""
        share, num_frames = self.network.lm.config.history_dropout, batch.arrays.shape[1]
        if not share:
            return inputs
        hidden = draw_hidden(batch.ids, num_frames, share=share, seed=self.cfg.seed, epoch=batch.epoch)
        return hide_beginnings(inputs, torch.tensor(hidden, device=inputs.device), self.network.lm.special)

    def _build_network(self) -> ConditionedLM:
        assert self.array.codebook_size is not None
        size = self.array.width, self.array.codebook_size, self.array.frame_rate
        return build_conditioned_lm(self.cfg.model, self.cfg.conditioner, *size, self.sources["train"].values)
