"""Predict the next mu-law code of a recording with causal convolutions, and draw recordings from them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solfa.codecs import Encoded, load_codec
from solfa.data import Batch
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.request import AudioRequest
from solfa.solvers import Metrics, SolverConfig, StageConfig, StandardSolver, build_optimizer


class GenerateConfig(StageConfig):
    """`every` comes from StageConfig."""

    num_clips: int = 2
    seconds: float = 0.25
    temperature: float = 0.8


class NextCodeConfig(SolverConfig):
    """What the YAML of this solver may hold, beside what every solver has."""

    dim: int = 32
    num_layers: int = 6
    dropout: float = 0.1
    generate: GenerateConfig = GenerateConfig()


class NextCode(nn.Module):
    """Logits of the next code [B, T, V] from the codes so far [B, T]."""

    def __init__(self, codebook_size: int, dim: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(codebook_size, dim)
        self.convolutions = nn.ModuleList(nn.Conv1d(dim, dim, 2, dilation=2**layer) for layer in range(num_layers))
        self.head = nn.Sequential(nn.Dropout(dropout), nn.Linear(dim, codebook_size))

    def forward(self, codes: Tensor) -> Tensor:
        x = self.embedding(codes).transpose(1, 2)
        for layer, convolution in enumerate(self.convolutions):
            x = x + F.gelu(convolution(F.pad(x, (2**layer, 0))))
        logits: Tensor = self.head(x.transpose(1, 2))
        return logits


class NextCodeSolver(StandardSolver[NextCodeConfig]):
    """The task."""

    Config: ClassVar[type[SolverConfig]] = NextCodeConfig

    def build_model(self) -> None:
        array = self.data_facts["array"]
        if array["kind"] != "codes" or array["width"] != 1:
            raise ConfigError(f"dset: expected one codebook, found {array['width']} {array['kind']}; encode with mulaw")
        self.model = NextCode(array["codebook_size"], self.cfg.dim, self.cfg.num_layers, self.cfg.dropout)
        self.optimizer = build_optimizer(self.model, self.cfg.optim)
        self.register_stateful("model", "optimizer")
        self.register_best("model")
        self.register_ema("model")

    def best_metric(self) -> str:
        return "loss"

    def run_step(self, idx: int, batch: Batch, metrics: Metrics) -> Metrics:
        codes, mask = batch.arrays[..., 0], batch.mask[:, 1:]
        logits = self.model(codes[:, :-1])
        nats = F.cross_entropy(logits.transpose(1, 2), codes[:, 1:], reduction="none")
        loss = (nats * mask).sum() / mask.sum().clamp(min=1)
        if self.is_training:
            metrics["grad_norm"] = self.update(loss)
        metrics["loss"] = loss.detach()
        return metrics

    def evaluate(self) -> Metrics:
        """Report bits instead of nats."""
        metrics = self.common_train_valid("evaluate")
        return {**metrics, "bits": metrics["loss"] / math.log(2)}

    def generate(self) -> Metrics:
        wanted = self.cfg.generate
        clips = [self.draw(f"{n}", wanted.seconds, n, wanted.temperature) for n in range(wanted.num_clips)]
        if self.is_first_rank:
            self.experiment.watcher.clips("generate", self.epoch, clips)
        return {"clips": float(len(clips))}

    def generate_audio(
        self, requests: Sequence[AudioRequest], options: Mapping[str, Any], on_step: Callable[[int, int], None]
    ) -> Iterator[GeneratedClip]:
        if set(options) - {"temperature"} or any(one.text or one.attributes or one.prompt for one in requests):
            raise ConfigError("next_code: it is told a length, a seed and a temperature, and nothing else")
        temperature = options.get("temperature", self.cfg.generate.temperature)
        for done, one in enumerate(requests, 1):
            yield self.draw(one.name, one.seconds, one.seed, temperature)
            on_step(done, len(requests))

    @torch.no_grad()
    def draw(self, name: str, seconds: float, seed: int, temperature: float) -> GeneratedClip:
        """Draw one code after the other and decode them."""
        codec = load_codec(self.data_facts["codec"])
        generator = torch.Generator().manual_seed(seed)
        codes = torch.full((1, 1), self.data_facts["array"]["codebook_size"] // 2)
        for _ in range(round(seconds * codec.frame_rate)):
            seen = codes[:, -(2**self.cfg.num_layers) :].to(self.device)
            chances = (self.model(seen)[:, -1].cpu() / max(temperature, 1e-6)).softmax(dim=-1)
            codes = torch.cat([codes, torch.multinomial(chances, 1, generator=generator)], dim=1)
        array = codes[:, 1:, None]
        audio = codec.decode(Encoded(array, array.shape[1] * codec.hop_length))[0]
        return GeneratedClip(name, audio, codec.sample_rate, {"seed": seed, "temperature": temperature})
