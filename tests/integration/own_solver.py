"""Predict the next mu-law code of a recording with causal convolutions, and draw recordings from them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solfa.codecs import Encoded, load_codec
from solfa.config import Config, parse_config
from solfa.data import Batch
from solfa.errors import ConfigError
from solfa.generate import ClipRequest, GeneratedClip, OnAudio, OnStep
from solfa.solvers import Metrics, SolverConfig, StageConfig, StandardSolver, build_optimizer, unwrapped


class Sampling(Config):
    """How clips are drawn: the options of `solfa generate` that this model knows."""

    temperature: float = 0.8


class GenerateConfig(StageConfig):
    """`every` comes from StageConfig."""

    num_clips: int = 2
    seconds: float = 0.25
    sampling: Sampling = Sampling()


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


class NextCodeGenerator:
    """What draws clips: `solfa.load_model` builds it, and so does the solver, around the network that it trains."""

    conditions: Mapping[str, str] = {}

    def __init__(self, network: NextCode, codec: str, sampling: Sampling) -> None:
        self.network, self.codec, self.sampling = network, load_codec(codec), sampling

    @classmethod
    def build(cls, config: Mapping[str, Any], data_facts: Mapping[str, Any]) -> "NextCodeGenerator":
        size, keys = data_facts["array"]["codebook_size"], ("dim", "num_layers", "dropout")
        network = NextCode(size, **{key: config[key] for key in keys})
        return cls(network, data_facts["codec"], Sampling(**config["generate"]["sampling"]))

    def draw(
        self,
        requests: Sequence[ClipRequest],
        options: Mapping[str, Any],
        on_step: OnStep,
        on_audio: OnAudio | None = None,
    ) -> Iterator[GeneratedClip]:
        if any(one.text or one.conditions or one.prompt for one in requests):
            raise ConfigError("next_code: it is told a length, a seed and a temperature, and nothing else")
        sampling = parse_config(Sampling, {**self.sampling.model_dump(), **options}, "options")
        for done, one in enumerate(requests, 1):
            yield self.draw_one(one, sampling.temperature)
            on_step(done, len(requests))

    @torch.no_grad()
    def draw_one(self, request: ClipRequest, temperature: float) -> GeneratedClip:
        """Draw one code after the other and decode them."""
        generator = torch.Generator().manual_seed(request.seed)
        network, device = self.network.eval(), self.network.embedding.weight.device
        codes = torch.full((1, 1), self.network.embedding.num_embeddings // 2)
        for _ in range(round(request.seconds * self.codec.frame_rate)):
            seen = codes[:, -(2 ** len(network.convolutions)) :].to(device)
            chances = (network(seen)[:, -1].cpu() / max(temperature, 1e-6)).softmax(dim=-1)
            codes = torch.cat([codes, torch.multinomial(chances, 1, generator=generator)], dim=1)
        array = codes[:, 1:, None]
        audio = self.codec.decode(Encoded(array, array.shape[1] * self.codec.hop_length))[0]
        about = {"seed": request.seed, "temperature": temperature}
        return GeneratedClip(request.name, audio, self.codec.sample_rate, about)


class NextCodeSolver(StandardSolver[NextCodeConfig]):
    """The task."""

    Config: ClassVar[type[SolverConfig]] = NextCodeConfig
    Generator = NextCodeGenerator

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
        requests = [ClipRequest(f"{n}", wanted.seconds, seed=n) for n in range(wanted.num_clips)]
        return {"clips": float(len(self.draw_clips(self.generator(), requests)))}

    def generator(self) -> NextCodeGenerator:
        """Give what draws with the weights as they are."""
        return NextCodeGenerator(unwrapped(self.model), self.data_facts["codec"], self.cfg.generate.sampling)
