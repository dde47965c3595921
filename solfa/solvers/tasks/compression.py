"""Train a neural codec: reconstruct waveforms through a bottleneck, against losses and discriminators.

    waveform ──► codec ──► reconstruction ──► losses in time, mel bands, spectra ┐
        └──────────────────────┴──► discriminators ──► fooling them, their maps ─┴─► balanced gradient ──► codec
                                         └──────────► telling both apart ──────────────────────────────► discriminators

The data is waveforms in a `mulaw` or `linear` dataset: one code per sample, exact to 16 bits.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from torch import Tensor, nn

from solfa.codecs.catalogue import load_codec, load_own
from solfa.codecs.families.quantized import WaveformCodec
from solfa.config import Config
from solfa.data.batching.collation import Batch
from solfa.data.sources.stage_source import OpenedSource
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.models.codec.bottlenecks import Rvq
from solfa.models.codec.config import CodecModelConfig
from solfa.models.codec.encodec_start import load_encodec
from solfa.models.codec.network import CodecModel, Reconstruction
from solfa.models.codec.trained_start import start_from
from solfa.nn.discriminators import Judgement, StftDiscriminatorConfig, frozen
from solfa.ops.adversarial import AnyAdversarialLoss, Hinge, feature_matching_loss
from solfa.ops.audio_losses import AnyAudioLoss
from solfa.ops.audio_metrics import batch_mel_distance_db, codebook_perplexity, codebook_usage, count_codes, si_sdr
from solfa.ops.loss_balance import BalancerConfig, loss_of_gradient
from solfa.solvers.config import SolverConfig, Stage, StageConfig
from solfa.solvers.fabric.wrappers import unwrapped
from solfa.solvers.judge import ClipPairs, judged_size
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.optim.optimizer import AnyOptimizer, build_optimizer
from solfa.solvers.plan.outline import Outline
from solfa.solvers.standard import StandardSolver
from solfa.solvers.tasks.older_codes import OlderCodesConfig
from solfa.store.schema import ArraySpec
from solfa.xp.state_file import load_module

FOOLING, MAPS = "adversarial", "features"
"""The names of the two losses that the codec gets from the discriminators."""


class AdversarialConfig(Config):
    """Discriminators, and the losses that the codec gets from them."""

    discriminator: StftDiscriminatorConfig = StftDiscriminatorConfig()
    loss: AnyAdversarialLoss = Hinge()
    weight: float = Field(default=4.0, ge=0)
    """The weight of the loss for fooling them."""
    feature_weight: float = Field(default=4.0, ge=0)
    """The weight of the loss for matching their feature maps of the original."""
    start_update: NonNegativeInt = 0
    """Updates of the codec before they start."""
    every: PositiveInt = 1
    """Updates of the codec per update of the discriminators."""
    optimizer: AnyOptimizer | None = None
    """None uses the same settings as the codec."""


class CompressionGenerateConfig(StageConfig):
    """Which clips to reconstruct for listening."""

    num_clips: PositiveInt = 4
    seconds: float = Field(default=10.0, gt=0)


class CompressionConfig(SolverConfig):
    """A codec and the losses that train it."""

    model: CodecModelConfig
    losses: Mapping[str, AnyAudioLoss] = Field(min_length=1)
    weights: Mapping[str, float]
    """Each loss's share of the gradient at the codec's output."""
    balancer: BalancerConfig = BalancerConfig()
    adversarial: AdversarialConfig | None = None
    keep_codes: bool = False
    """Train the decoder alone: codes and latents that the codec has written before stay what it would write."""
    keep_codebooks: bool = False
    """Train encoder and decoder and leave the codebooks as they are: codes stand for the same entries as before."""
    older_codes: OlderCodesConfig | None = None
    """With `keep_codebooks`: train the decoder on codes of the codec before, too, so that it still reads them well."""
    generate: CompressionGenerateConfig = CompressionGenerateConfig()

    @model_validator(mode="after")
    def _codebooks_of_older_codes(self) -> "CompressionConfig":
        if self.older_codes is not None and not self.keep_codebooks:
            raise ValueError("older_codes: they are only the same codes if codebooks stay; set keep_codebooks")
        return self

    @model_validator(mode="after")
    def _codes_to_keep(self) -> "CompressionConfig":
        for name, wanted in (("keep_codes", self.keep_codes), ("keep_codebooks", self.keep_codebooks)):
            if wanted and self.continue_from is None:
                raise ValueError(f"{name}: there are none to keep; set continue_from to a trained codec")
        return self

    @model_validator(mode="after")
    def _every_loss_has_a_weight(self) -> "CompressionConfig":
        if set(self.losses) != set(self.weights):
            raise ValueError(f"weights: expected one for each of {sorted(self.losses)}, found {sorted(self.weights)}")
        if {FOOLING, MAPS} & set(self.losses):
            raise ValueError(f"losses: {FOOLING} and {MAPS} are reserved for the discriminators; choose other names")
        return self


class CompressionSolver(StandardSolver[CompressionConfig]):
    """Learns to reconstruct waveforms."""

    Config: ClassVar[type[SolverConfig]] = CompressionConfig

    def build_model(self) -> None:
        """Build the codec, and the discriminators if there are any."""
        cfg = self.cfg
        self._check_data()
        self.model = self._build_network()
        self.optimizer = build_optimizer(self.model, cfg.optim)
        self.losses = {name: loss.build(cfg.model.sample_rate) for name, loss in cfg.losses.items()}
        weights = dict(cfg.weights)
        if cfg.adversarial is not None:
            weights |= {FOOLING: cfg.adversarial.weight, MAPS: cfg.adversarial.feature_weight}
            rule = cfg.adversarial.optimizer or cfg.optim.optimizer
            self.discriminator = cfg.adversarial.discriminator.build(cfg.model.num_channels)
            # The patterns of `groups` refer to the codec's parameters.
            theirs = cfg.optim.model_copy(update={"optimizer": rule, "groups": ()})
            self.discriminator_optimizer = build_optimizer(self.discriminator, theirs)
            self.register_stateful("discriminator", "discriminator_optimizer")
        self.older_codes = None if cfg.older_codes is None else cfg.older_codes.build(cfg.model)
        self.balancer = cfg.balancer.build(weights, self._mean_over_processes)
        self.register_stateful("model", "optimizer", "balancer")
        self.register_best("model")
        self.register_ema("model")
        self._counts: list[Int64[Tensor, "K V"]] = []
        """How often each code occurred in a stage so far."""

    def outline(self) -> Outline:
        self._check_data()
        networks: dict[str, nn.Module] = {"model": self._build_network()}
        if self.cfg.adversarial is not None:
            networks["discriminator"] = self.cfg.adversarial.discriminator.build(self.cfg.model.num_channels)
        return Outline(networks, smaller="set model.network.dim or adversarial.discriminator.num_filters lower")

    def best_metric(self) -> str:
        return "mel_distance"

    def last_is_best(self) -> bool:
        """Keep the newest weights once discriminators take part: the mel distance does not hear what they change."""
        adversarial = self.cfg.adversarial
        if adversarial is None or not (adversarial.weight or adversarial.feature_weight):
            return False
        return self.epoch * self.cfg.optim.updates_per_epoch > adversarial.start_update

    def run_step(self, idx: int, batch: Batch, metrics: Metrics) -> Metrics:
        audio = self._waveform(batch.arrays, batch.mask)
        older = None
        if self.older_codes is not None and self.is_training:
            older = self.older_codes.codes(audio, self.codec)
        passed: Reconstruction = self.model(audio, older)
        # The balancer wants gradients here and no further; in mixed precision Fabric refuses any but those of `update`.
        decoded = passed.audio.detach().requires_grad_(self.is_training)
        losses = {name: loss(decoded, audio) for name, loss in self.losses.items()}
        metrics.update({name: loss.detach() for name, loss in losses.items()})
        metrics.update({name: value.detach() for name, value in passed.bottleneck.metrics.items()})
        if self.is_training:
            self._train_codec(audio, decoded, passed, losses, metrics)
            self._train_discriminator(audio, decoded.detach(), metrics)
        else:
            self._measure(audio, passed, batch.mask.any(dim=1), metrics)
        return metrics

    def valid(self) -> Metrics:
        return self._with_codebooks("valid")

    def evaluate(self) -> Metrics:
        means = self._with_codebooks("evaluate")
        return {**means, **self.judged(means)}

    def clips_to_judge(self) -> ClipPairs:
        """Reconstruct the first clips of the evaluate dataset, beside their originals."""
        clips = self._pairs(self.sources["evaluate"], *judged_size(self.cfg.evaluate))
        return ClipPairs(clips[1::2], clips[::2])

    def generate(self) -> Metrics:
        """Reconstruct the first clips of the generate dataset, next to their originals."""
        wanted = self.cfg.generate
        clips = self._pairs(self.sources["generate"], wanted.num_clips, wanted.seconds) if self.is_first_rank else []
        if self.is_first_rank:
            self.experiment.watcher.clips("generate", self.epoch, clips)
        return {"clips": len(clips) / 2}

    def load_pretrained(self, location: str) -> str:
        """Start from a codec that Solfa trained (built in or exported), or from an EnCodec in transformers' layout."""
        name, bottleneck = location.removeprefix("//pretrained/"), self.cfg.model.bottleneck
        trained = load_own(name)
        if trained is not None:
            kept = "keep_codes" if self.cfg.keep_codes else "keep_codebooks" if self.cfg.keep_codebooks else None
            if kept is not None and trained.config.bottleneck.kind != bottleneck.kind:
                raise ConfigError(
                    f"{kept}: the codes of {name} come from its bottleneck {trained.config.bottleneck.kind}, found "
                    f"{bottleneck.kind}; set model.bottleneck to its own, or remove {kept}"
                )
            return f"loaded the codec {name}: encoder, decoder; {start_from(self.codec, trained, name)}"
        if not isinstance(bottleneck, Rvq):
            raise ConfigError(
                f"model.bottleneck: starting from {location} takes rvq, found {bottleneck.kind}; set kind to rvq"
            )
        loaded = load_encodec(name, rvq=bottleneck)
        load_module("model", self.codec, loaded.state_dict())
        return f"loaded the codec from {location}; everything else starts fresh"

    @property
    def codec(self) -> CodecModel:
        """The codec itself, without Fabric's wrapper."""
        codec = unwrapped(self.model)
        assert isinstance(codec, CodecModel)
        return codec

    def _build_network(self) -> CodecModel:
        network = CodecModel(self.cfg.model)
        if self.cfg.keep_codes:
            network.keep_codes()
        if self.cfg.keep_codebooks:
            network.keep_codebooks()
        return network

    def _train_codec(
        self,
        audio: Float[Tensor, "B C N"],
        decoded: Float[Tensor, "B C N"],
        passed: Reconstruction,
        losses: dict[str, Tensor],
        metrics: Metrics,
    ) -> None:
        adversarial = self.cfg.adversarial
        if adversarial is not None and self._total_updates() >= adversarial.start_update:
            judge = unwrapped(self.discriminator)
            with torch.no_grad(), self._judging_precision():
                real: list[Judgement] = judge(audio)
            with frozen(judge), self._judging_precision():
                fake: list[Judgement] = judge(decoded)
            losses[FOOLING] = adversarial.loss.generator_loss([found.logits for found in fake])
            losses[MAPS] = feature_matching_loss([found.features for found in real], [found.features for found in fake])
            metrics.update({name: losses[name].detach() for name in (FOOLING, MAPS)})
        balanced = self.balancer.balance(losses, decoded)
        surrogate = loss_of_gradient(passed.audio, balanced.gradient) + passed.bottleneck.loss
        metrics["grad_norm"] = self.update(surrogate)

    def _judging_precision(self) -> AbstractContextManager[None]:
        """Judge as the run computes, but not in float16: no scaler enlarges the gradients that the balancer takes."""
        return nullcontext() if self.cfg.precision == "16-mixed" else self.fabric.autocast()

    def _train_discriminator(self, audio: Tensor, decoded: Tensor, metrics: Metrics) -> None:
        adversarial = self.cfg.adversarial
        updates = self._total_updates()
        if adversarial is None or updates < adversarial.start_update or updates % adversarial.every:
            return
        # In one call, because each call synchronises gradients between processes.
        judgements: list[Judgement] = self.discriminator(torch.cat([audio, decoded]))
        halves = [found.logits.chunk(2) for found in judgements]
        loss = adversarial.loss.discriminator_loss([real for real, _ in halves], [fake for _, fake in halves])
        self.update(loss, model="discriminator", optimizer="discriminator_optimizer")
        metrics["discriminator"] = loss.detach()

    def _total_updates(self) -> int:
        """Count the updates before this one; the codec's schedule may already include this one."""
        return (self.epoch - 1) * self.cfg.optim.updates_per_epoch + self.num_updates

    def _measure(self, audio: Tensor, passed: Reconstruction, heard: Bool[Tensor, "B"], metrics: Metrics) -> None:
        ratios = si_sdr(passed.audio, audio)
        if not ratios.isnan().all():  # the ratio is undefined for silence
            metrics["si_sdr"] = ratios.nanmean()
        metrics["mel_distance"] = batch_mel_distance_db(passed.audio, audio, self.cfg.model.sample_rate).mean()
        codes, size = passed.bottleneck.codes, self.cfg.model.codebook_size
        if codes is not None and size is not None:
            self._counts.append(count_codes(codes[heard], size))  # without rows that are only padding

    def _with_codebooks(self, stage: Stage) -> Metrics:
        """Add codebook usage over the whole stage, which is not a mean over batches."""
        self._counts = []
        metrics = self.common_train_valid(stage)
        if self._counts:
            counts = self.fabric.all_reduce(torch.stack(self._counts).sum(0), reduce_op="sum")
            assert isinstance(counts, Tensor)
            usage, perplexity = codebook_usage(counts), codebook_perplexity(counts)
            metrics |= {"usage": float(usage.mean()), "perplexity": float(perplexity.mean())}
            metrics |= {f"perplexity_q{k + 1}": float(value) for k, value in enumerate(perplexity)}
        return metrics

    def _pairs(self, source: OpenedSource, num_clips: int, seconds: float) -> list[GeneratedClip]:
        rate = self.cfg.model.sample_rate
        clips = []
        for index in range(min(num_clips, len(source))):
            clip = source[index]
            array = torch.from_numpy(clip.array[: round(seconds * rate)].astype(np.int64))[None].to(self.device)
            audio = self._waveform(array, torch.ones(array.shape[:2], dtype=torch.bool, device=self.device))
            decoded = self.codec.decode(self.codec.encode(audio), audio.shape[-1])
            for name, sound in (("original", audio), ("decoded", decoded)):
                clips.append(GeneratedClip(f"{index:03d}-{name}", sound[0].cpu(), rate, {"clip": clip.id}))
        return clips

    def _waveform(self, codes: Int64[Tensor, "B N C"], mask: Tensor) -> Float[Tensor, "B C N"]:
        return self.grid.to_audio(codes).transpose(1, 2) * mask[:, None]

    def _mean_over_processes(self, values: Tensor) -> Tensor:
        mean = self.fabric.all_reduce(values, reduce_op="mean")
        assert isinstance(mean, Tensor)
        return mean

    def _check_data(self) -> None:
        model = self.cfg.model
        array = ArraySpec.model_validate(self.data_facts["array"])
        codec = load_codec(str(self.data_facts["codec"]))
        if not isinstance(codec, WaveformCodec):
            raise ConfigError(
                f"dset: training a codec takes waveforms encoded with mulaw or linear, found {codec.name}; "
                f"encode the audio with mulaw:bits=16,sample_rate={model.sample_rate},num_channels={model.num_channels}"
            )
        self.grid = codec.grid
        found = (array.sample_rate, array.num_channels)
        if found != (model.sample_rate, model.num_channels):
            raise ConfigError(
                f"model: expected the dataset's {found[0]} Hz and {found[1]} channels, found {model.sample_rate} Hz "
                f"and {model.num_channels}; change the model, or encode the audio again"
            )
