"""The settings that all solvers share: the parts of the composed YAML that do not depend on the task.

A solver's own config extends `SolverConfig` with its model and whatever else it needs.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from solfa.config import Config, nearest
from solfa.data.batching.stage_batches import Batching
from solfa.data.sources.dset import Dset, Stage
from solfa.files.stores.place import expect_place
from solfa.models.adapters.lora import Lora
from solfa.solvers.optim.optimizer import OptimConfig
from solfa.solvers.watchers.protocol import LoggingConfig

__all__ = [
    "CheckpointConfig",
    "EvaluateConfig",
    "JudgedMetric",
    "OpenSolverConfig",
    "Precision",
    "SolverConfig",
    "Stage",
    "StageConfig",
]

JudgedMetric = Literal["kad", "fad", "kld", "bits"]
Precision = Literal["32-true", "16-mixed", "bf16-mixed", "bf16-true", "auto"]


class CheckpointConfig(Config):
    """When the state of a run is saved, and how many copies are kept."""

    save_every: PositiveInt | None = None
    """Epochs between copies that are kept; the last state is always saved."""
    keep_last: PositiveInt | None = None
    """How many of these copies to keep; None keeps all."""
    minutes: float | None = Field(default=10.0, gt=0)
    """Minutes between saves within an epoch; None saves only between stages."""
    mirror: Annotated[str, AfterValidator(expect_place)] | None = None
    """Where states and samples are copied after they were saved, such as s3://BUCKET/PATH; below it, a folder named
    after the signature. A run whose folder is gone continues from there."""


class StageConfig(Config):
    """When to run a stage that is not part of every epoch; with `every` set, it also runs after the last epoch."""

    every: PositiveInt | None = None
    """Epochs between runs; None never runs it."""


class EvaluateConfig(StageConfig):
    """When to evaluate, and by which further measures; these generate clips, and compare them with real ones."""

    metrics: tuple[JudgedMetric, ...] | None = None
    """`kad`, `fad`, `kld` (as `solfa.evaluate` computes them) and `bits`, per second of audio; None measures none."""
    embedder: str | None = None
    """What hears the clips: a name, a directory or a Hub id; None is musicnn."""
    num_clips: PositiveInt | None = Field(default=None, ge=2)
    """How many clips of the evaluate dataset to compare with; None is 32."""
    seconds: float | None = Field(default=None, gt=0)
    """How long the clips are; None is 10."""
    originals: str | None = None
    """The audio that the evaluate dataset was encoded from: with it, `bits` come with what the codec loses."""


class SolverConfig(Config):
    """The settings of a run that all tasks have in common."""

    solver: str
    """One of Solfa's solvers, or your own `package.module:Class`."""
    seed: NonNegativeInt = 0
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Precision = "32-true"
    """`auto` is bf16-mixed where the first machine of the run learns faster with it; a run keeps what it began with."""
    compile: bool = False
    """Let torch.compile fuse the networks' operations; the first updates take longer. CPUs need a C++ compiler."""
    strategy: Literal["auto", "ddp", "fsdp"] = "auto"
    num_threads: PositiveInt | None = None
    """CPU threads per process; None leaves it to torch. A tiny model is fastest with one."""
    num_nodes: PositiveInt = 1
    dset: Dset | None = None
    dataset: Batching | None = None
    optim: OptimConfig
    checkpoint: CheckpointConfig = CheckpointConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    generate: StageConfig = StageConfig()
    logging: LoggingConfig = LoggingConfig()
    execute_only: Literal["valid", "evaluate", "generate"] | None = None
    """Run only this stage, with the weights trained so far."""
    continue_from: str | None = None
    """An experiment's folder (`//sig/SIG`), a checkpoint file, or pretrained weights that the solver knows."""
    continue_keep: tuple[Literal["optimizer", "schedule"], ...] = ()
    """What to take from there besides the weights; everything else starts fresh."""
    adapter: Lora | None = None
    """Train low-rank products beside the weights of `continue_from`, which stay as they are, and store these alone."""
    on_changed_default: Literal["refuse", "keep", "adopt"] = "refuse"
    """What to do if the experiment started with other defaults: stop, keep the old ones, or adopt the new ones."""

    @model_validator(mode="before")
    @classmethod
    def _one_number_of_generated_clips(cls, values: Any) -> Any:
        """Let `dataset.generate.num_samples`, which is AudioCraft's name for it, set `generate.num_clips`."""
        wanted = _at(_at(_at(values, "dataset"), "generate"), "num_samples")
        generate = _at(values, "generate")
        if wanted is None or _at(generate, "num_clips") is None:
            return values
        return {**values, "generate": {**generate, "num_clips": wanted}}

    @model_validator(mode="after")
    def _adapter_has_a_base(self) -> "SolverConfig":
        if self.adapter is None:
            return self
        if self.continue_from is None:
            raise ValueError("adapter: it changes existing weights, found none; set continue_from to its base")
        if self.continue_keep:
            raise ValueError("continue_keep: an adapter starts fresh on its base; leave it out")
        if self.strategy == "fsdp":
            raise ValueError("strategy: an adapter cannot be sharded; use ddp or auto")
        return self


class Keys(dict[str, Any]):
    """Settings that no model describes: `cfg.net.dim`, `cfg.net["dim"]` and `Net(**cfg.net)` all work."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no key {name!r}{nearest(name, self)}") from None


def _with_attributes(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Keys({str(key): _with_attributes(inner) for key, inner in value.items()})
    return [_with_attributes(inner) for inner in value] if isinstance(value, list) else value


class OpenSolverConfig(SolverConfig):
    """The settings of a solver without a Config of its own: keys that its YAML adds are taken as they are.

    A key that is almost one of the common ones is refused: it would be ignored.
    """

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _take_other_keys(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        for name in values.keys() - cls.model_fields.keys():
            if alike := get_close_matches(name, cls.model_fields, n=1, cutoff=0.8):
                raise ValueError(
                    f"{name}: unknown field, did you mean {alike[0]!r}? A key of your own with such a name has to be "
                    f"declared: `class MyConfig(SolverConfig): {name}: TYPE`, and in the solver `Config = MyConfig`"
                )
        return {name: value if name in cls.model_fields else _with_attributes(value) for name, value in values.items()}


def _at(values: Any, key: str) -> Any:
    return values.get(key) if isinstance(values, Mapping) else None
