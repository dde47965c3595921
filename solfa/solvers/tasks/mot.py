"""Train audio experts on a frozen text model: captions before codes, cross-entropy of the codes alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from solfa.codecs.protocol import Codec
from solfa.config import nearest, parse_config
from solfa.data.attributes import attribute_rows, drop_attributes
from solfa.data.batching.collation import Batch
from solfa.data.batching.stage_batches import PackRows
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.codes import ClipRequest, Progress, generate_clips
from solfa.generate.request import AudioRequest
from solfa.models.lm.codes_shape import of_codes
from solfa.models.lm.generation import GenerationSettings
from solfa.models.lm.network import cross_entropy
from solfa.models.mot.assembly import build_mot
from solfa.models.mot.config import MoTConfig
from solfa.models.mot.network import MoT
from solfa.models.mot.prefix import TextPrefix
from solfa.models.mot.texts import Texts, TextsConfig
from solfa.solvers.config import SolverConfig
from solfa.solvers.fabric.devices import gather_objects
from solfa.solvers.fabric.wrappers import unwrapped
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.optim.optimizer import build_optimizer
from solfa.solvers.standard import StandardSolver
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

TEXT = "text"
"""The one attribute of a clip that the model is told."""


class MoTSolverConfig(SolverConfig):
    """A text model with audio experts, and the texts that it reads."""

    model: MoTConfig
    text: TextsConfig = TextsConfig()
    generate: CodesGenerateConfig = CodesGenerateConfig()
    codec: str | None = None
    """What decodes generated codes; None: the codec that the dataset was encoded with."""


class MoTSolver(StandardSolver[MoTSolverConfig]):
    """The task of predicting codes after a text."""

    Config: ClassVar[type[SolverConfig]] = MoTSolverConfig

    def build_model(self) -> None:
        """Load the base and the donor, and size the audio side by the data."""
        cfg = self.cfg
        self.array = codes_array(self.data_facts)
        assert self.array.codebook_size is not None
        if cfg.dataset is not None and isinstance(cfg.dataset.mode, PackRows):
            raise ConfigError(
                "dataset.mode: packed rows hold several clips, each with its own caption; use crop or pad"
            )
        self.model = build_mot(of_codes(cfg.model, self.array.width, self.array.codebook_size))
        self.texts = Texts(cfg.text, self.model.base)
        if self.sources:
            self._expect_texts()
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
        texts = self._texts(batch)
        read = self.texts.ids(texts) if self.cfg.model.prefix_graph else self.texts.prefix(texts)
        logits = self.model(codes, mask, read)
        nats = cross_entropy(logits, codes, mask[:, None].expand_as(codes))
        if self.is_training:
            # The mean over the global batch once the processes' gradients are averaged.
            share = self.fabric.world_size / (len(nats) * batch.global_frames)
            metrics["grad_norm"] = self.update(nats.sum() * share)
        return {**metrics, **mean_nats(nats, mask)}

    def summarise(self, means: Metrics) -> Metrics:
        return with_perplexity(means)

    def generate(self) -> Metrics:
        """Generate clips with the texts of the generate dataset, and show them to whoever watches."""
        wanted = self.cfg.generate
        rank, world_size = self.fabric.global_rank, self.fabric.world_size
        source, seed = self.sources["generate"], (self.cfg.seed, self.epoch)
        requests = requests_like(source, wanted, self.array.frame_rate, self._columns, seed, self.device)
        # The codec is loaded for this and let go afterwards: training needs its memory.
        codec = self.load_codec()
        clips = list(self._generate_clips(codec, requests[rank::world_size], wanted.sampling, self._tick))
        everyone = [clip for clips in gather_objects(self.fabric, clips) for clip in clips]
        if self.is_first_rank:
            self.experiment.watcher.clips("generate", self.epoch, everyone)
        return {"clips": float(len(everyone))}

    def generate_audio(
        self, requests: Sequence[AudioRequest], options: Mapping[str, Any], on_step: Progress
    ) -> Iterator[GeneratedClip]:
        """Generate what is asked for; `options` may hold what `generate.sampling` does."""
        settings = parse_config(GenerationSettings, {**self.cfg.generate.sampling.model_dump(), **options}, "options")
        codec = self.load_codec()
        clips = [self._request(request, codec) for request in requests]
        yield from self._generate_clips(codec, clips, settings, on_step)

    def load_codec(self) -> Codec:
        """Load the codec that turns generated codes into sound."""
        return load_fitting_codec(self.cfg.codec or str(self.data_facts["codec"]), self.array, self.device)

    @property
    def network(self) -> MoT:
        """The model as it was built, without what spreads it over devices."""
        network = unwrapped(self.model)
        assert isinstance(network, MoT)
        return network

    @property
    def _columns(self) -> dict[str, str]:
        return {TEXT: self.cfg.text.source}

    def _expect_texts(self) -> None:
        """Refuse data without any text: a model that is to follow captions would learn to ignore them."""
        if self.cfg.text.dropout < 1 and not any(self.sources["train"].values(self.cfg.text.source)):
            raise ConfigError(
                f"text.source: no clip of the training data has a {self.cfg.text.source}; name a column that holds "
                "text, join a table of captions to the dataset, or train without texts by text.dropout=1"
            )

    def _texts(self, batch: Batch) -> list[Any]:
        rows = attribute_rows(batch.captions, batch.metadata, self._columns)
        # A model that is trained without texts is judged without them, too.
        dropout = self.cfg.text.dropout if self.is_training else float(self.cfg.text.dropout == 1)
        dropped = drop_attributes(
            rows, batch.ids, guidance_dropout=dropout, dropouts={}, seed=self.cfg.seed, epoch=batch.epoch
        )
        return [row[TEXT] for row in dropped]

    def _generate_clips(
        self, codec: Codec, requests: Sequence[ClipRequest], settings: GenerationSettings, on_step: Progress
    ) -> Iterator[GeneratedClip]:
        return generate_clips(self.network, self._conditions, codec, requests, settings, on_step)

    def _conditions(self, rows: Sequence[Mapping[str, Any]]) -> Callable[[], TextPrefix]:
        texts = [row.get(TEXT) for row in rows]
        for text in texts:
            self.texts.tokenize(text)
        return lambda: self.texts.prefix(texts, guided=any(texts))

    def _request(self, request: AudioRequest, codec: Codec) -> ClipRequest:
        for name in request.attributes:
            raise ConfigError(
                f"attribute {name!r}: the model knows a text only{nearest(name, [TEXT])}; give it by --text"
            )
        prompt = prompt_codes(request, codec, self.device)
        return ClipRequest(request.name, request.seconds, request.seed, {TEXT: request.text}, prompt)

    def _tick(self, done: int, total: int) -> None:
        self.stop_if_asked()
