"""BaseSolver: what a task says about itself, and what it is built from; `StandardSolver` adds the order of things."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from solfa.data.batching.stage_batches import Batching, make_stage_loader
from solfa.data.sources.stage_source import OpenedSource
from solfa.environment.stop_signals import StopSignals
from solfa.errors import ConfigError, SolfaError
from solfa.generate.clip import GeneratedClip
from solfa.generate.generator import ClipGenerator
from solfa.models.adapters.attachment import attach
from solfa.pretrained.origin import Origin
from solfa.solvers.config import OpenSolverConfig, SolverConfig, Stage
from solfa.solvers.experiment import Experiment, current_experiment
from solfa.solvers.fabric.devices import gather_objects, settle_precision, spread, start_fabric
from solfa.solvers.fabric.wrappers import unwrapped
from solfa.solvers.loop.averages import Averages, Metrics
from solfa.solvers.loop.randomness import own_randomness, seed_all
from solfa.solvers.loop.stage_loaders import data_facts, from_the_start, open_stages
from solfa.solvers.loop.update import NotFinite, step_down
from solfa.solvers.optim.ema import Ema
from solfa.solvers.optim.optimizer import build_schedule
from solfa.solvers.optim.schedules import Schedule
from solfa.solvers.plan.expected_loss import ExpectedLoss
from solfa.solvers.plan.outline import Outline
from solfa.solvers.plan.run_plan import tell_plan
from solfa.solvers.state.adapter_base import expect_adapter, load_base
from solfa.solvers.state.checkpoints import Persistence
from solfa.solvers.state.registry import Registry, check_modules
from solfa.solvers.state.starting_weights import StartingWeights
from solfa.spelling import plural

C = TypeVar("C", bound=SolverConfig)

logger = logging.getLogger(__name__)


class BaseSolver(Generic[C]):
    """Holds what a run consists of: data, networks, optimisers, schedules, averages, and where they are kept."""

    Config: ClassVar[type[SolverConfig]] = OpenSolverConfig
    """The pydantic model that validates this solver's settings; without one, keys of its own are taken as they are."""

    Generator: ClassVar[type[ClipGenerator] | None] = None
    """The class that `solfa.load_model` builds to generate with the trained weights, if there is one."""

    reads_files: ClassVar[bool] = False
    """Whether `load_pretrained` reads files, and not only directories and Hub ids."""

    @classmethod
    def check_start(cls, cfg: C) -> None:
        """Refuse settings that cannot work, before audio is encoded for them."""

    def __init__(self, cfg: C, experiment: Experiment | None = None) -> None:
        experiment, cfg = experiment or current_experiment(), settle_precision(cfg)
        self.cfg, self.experiment = cfg, experiment
        self.fabric = start_fabric(cfg)
        self.epoch = 1
        """The current epoch, counted from 1."""
        self.num_updates = 0
        """Updates done in this epoch."""
        self.history: list[dict[str, Metrics]] = []
        self.sources: dict[Stage, OpenedSource] = {}
        """The clips of each stage."""
        self.dataloaders: dict[str, Any] = {}
        self.data_facts: dict[str, Any] = {}
        """What the model needs to know about its data, in plain values; stored with the weights."""
        self._registry = Registry(self._attribute, partial(setattr, self))
        self._signals = StopSignals(self._acknowledge)
        self._stage: Stage | None = None
        self._batch: Any = None
        self._real: list[GeneratedClip] | None = None
        self._distortion: Metrics | None = None
        self._accumulates = False
        self.averages = Averages()

        # The same on every process, so that all start from the same weights.
        seed_all("build", cfg.seed)
        self.build_dataloaders()
        with torch.device("meta"), own_randomness("outline"):
            outline = self.outline()
            if outline is not None and cfg.adapter is not None and "model" in outline.networks:
                attach(outline.networks["model"], cfg.adapter, Origin(source="", sha256=""))
        if outline is not None:
            tell_plan(cfg, experiment, self.fabric, outline, self.sources)
        self.build_model()
        expect_adapter(cfg, self._registry.modules)
        if outline is None:
            built = Outline(self._registry.modules, tuple(self._registry.ema))
            tell_plan(cfg, experiment, self.fabric, built, self.sources)
        seed_all("train", cfg.seed, self.fabric.global_rank)
        registry = self._registry
        for name, value in spread(self.fabric, registry.modules, registry.optimizers, compiled=cfg.compile).items():
            setattr(self, name, value)
        self.schedules: dict[str, Schedule] = {
            name: build_schedule(optimizer, cfg.optim) for name, optimizer in self._registry.optimizers.items()
        }
        self.start_ema()
        self._persistence = Persistence(self, self._registry)
        self._start = StartingWeights(self._registry, experiment.folder)

    # What a task defines.

    def build_model(self) -> None:
        """Create the networks and optimisers as attributes, and register them."""
        raise NotImplementedError

    def outline(self) -> Outline | None:
        """Describe what `build_model` will build; networks made here have shapes and no numbers.

        None, if only building them can tell: then the plan of the run is told after that.
        """
        return None

    def run_step(self, idx: int, batch: Any, metrics: Metrics) -> Metrics:
        """Compute the loss of a batch, call `self.update(loss)` when `self.is_training`, and return the metrics."""
        raise NotImplementedError

    def build_dataloaders(self) -> None:
        """Open the config's datasets; a task with its own data fills `self.dataloaders` instead."""
        if self.cfg.dset is None or self.cfg.dataset is None:
            raise ConfigError(
                "dset, dataset: expected both, found only one or none; set dset=NAME, or override build_dataloaders"
            )
        self.sources = open_stages(self.cfg.dset, self.cfg.dataset)
        self.data_facts = data_facts(self.sources)
        batching = self.batching(self.cfg.dataset)
        for stage in ("train", "valid", "evaluate"):
            self.dataloaders[stage] = make_stage_loader(
                self.sources[stage],
                batching,
                stage,
                seed=self.cfg.seed,
                rank=self.fabric.global_rank,
                world_size=self.fabric.world_size,
                pin_memory=self.device.type == "cuda",
            )

    def batching(self, wanted: Batching) -> Batching:
        """Change the configured sizes of batches to what the task allows; the data are open."""
        return wanted

    def best_metric(self) -> str | None:
        """Name the validation metric whose lowest value marks the best epoch; None takes the last epoch."""
        return None

    def last_is_best(self) -> bool:
        """Say whether the newest weights are the best, because `best_metric` does not show what they learn now."""
        return self.best_metric() is None

    def batch_weight(self, batch: Any) -> float:
        """Return the weight of a batch in the mean of a metric."""
        return float(len(batch)) if hasattr(batch, "__len__") else 1.0

    def summarise(self, means: Metrics) -> Metrics:
        """Add metrics that are derived from the means of a stage rather than averaged themselves."""
        return means

    def load_pretrained(self, location: str) -> str:
        """Start from weights that were not trained here; say in one line what was loaded."""
        raise ConfigError(
            f"continue_from: expected an experiment (//sig/SIG) or a checkpoint file, found {location}; "
            f"the solver {self.cfg.solver} cannot load other weights"
        )

    def expected_losses(self) -> list[ExpectedLoss]:
        """Name the losses that mathematics knows without training, such as that of a blind guess."""
        return []

    def model_input(self, batch: Any) -> Tensor:
        """Return the arrays of a batch `[B, T, W]` as the network sees them."""
        arrays: Tensor = batch.arrays
        return arrays

    def conditions_as_read(self, batch: Any) -> list[dict[str, str]]:
        """Spell what the network is told about each clip of a batch, in its own tokens."""
        return [{"caption": caption} if caption else {} for caption in getattr(batch, "captions", ())]

    def frozen_parts(self) -> Mapping[str, Origin]:
        """Name the weights of others that the model uses and does not store; its card shows them with their hashes."""
        return {}

    # What a task calls.

    def register_stateful(self, *names: str) -> None:
        """Keep the state of these attributes in checkpoints."""
        self._registry.add(self._registry.stateful, *names)

    def register_best(self, *names: str) -> None:
        """Keep the best epoch's weights of these modules."""
        check_modules(list(names), self._attribute, "best")
        self._registry.add(self._registry.best, *names)

    def register_ema(self, *names: str) -> None:
        """Average the weights of these modules, if `optim.ema` is set."""
        check_modules(list(names), self._attribute, "ema")
        self._registry.add(self._registry.ema, *names)

    def add_adapter(self, name: str = "model") -> None:
        """Load the weights of `continue_from` into a network and put the configured adapter on it, if there is one.

        Call it before the optimiser is built, which then gets the adapter's weights alone.
        """
        adapter, location = self.cfg.adapter, self.cfg.continue_from
        if adapter is not None and location is not None:
            network: nn.Module = self._attribute(name)
            base = load_base(name, network, location, self)
            attached = attach(network, adapter, base.origin, base.fresh)
            logger.info("adapter: %s on %s", plural(len(attached.layers), "layer"), base.told)

    @property
    def is_training(self) -> bool:
        return self._stage == "train"

    @property
    def device(self) -> torch.device:
        return self.fabric.device

    @property
    def is_first_rank(self) -> bool:
        return self.fabric.global_rank == 0

    def update(self, loss: Tensor, *, model: str = "model", optimizer: str = "optimizer") -> Tensor | None:
        """Take a gradient step (once all batches of the update are in); return the norm of the gradient."""
        module, rule = self._attribute(model), self._attribute(optimizer)
        try:
            norm = step_down(
                self.fabric,
                loss,
                module,
                rule,
                self.cfg.optim,
                accumulates=self._accumulates,
                skips_overflow=self.cfg.precision == "16-mixed",
            )
        except NotFinite as broken:
            raise SolfaError(self._blame(broken)) from None
        if not self._accumulates:
            self.schedules[optimizer].step()
        return norm

    # What looks at a solver from outside uses these.

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Run steps as validation does while the context is open."""
        draws = own_randomness("valid", self.cfg.seed, self.epoch, self.fabric.global_rank)
        with torch.no_grad(), draws, self._as_in("valid"):
            yield

    @contextmanager
    def practising(self) -> Iterator[None]:
        """Run steps as training does while the context is open; nothing is counted or saved."""
        with self._as_in("train"):
            yield

    @contextmanager
    def first_batch(self) -> Iterator[Any]:
        """Read the first batch of training while the context is open."""
        with from_the_start(self.dataloaders["train"]) as batches:
            self._batch = self.fabric.to_device(next(batches))
            yield self._batch

    @contextmanager
    def _as_in(self, stage: Stage) -> Iterator[None]:
        self._stage = stage
        for module in self._registry.modules.values():
            module.train(stage == "train")
        try:
            yield
        finally:
            self._stage = None

    def _blame(self, broken: NotFinite) -> str:
        ids = [clip_id for ids in gather_objects(self.fabric, getattr(self._batch, "ids", ())) for clip_id in ids]
        clips = f"the batch has the clips {', '.join(map(repr, ids))}; " if ids else ""
        saved = self._persistence.describe_saved()
        return (
            f"epoch {self.epoch}, update {self.num_updates + 1}: {broken.found}; {clips}{saved}; check these clips, "
            "or lower the learning rate"
        )

    def start_ema(self) -> None:
        """Restart the average of the weights from their current values."""
        modules = {name: unwrapped(self._attribute(name)) for name in self._registry.ema}
        config = self.cfg.optim.ema
        self.ema: Ema | None = config.build(modules) if config is not None and modules else None

    def _attribute(self, name: str) -> Any:
        if not hasattr(self, name):
            raise ConfigError(f"{type(self).__name__}: there is no attribute {name!r}; set it before registering it")
        return getattr(self, name)

    def _acknowledge(self, sentence: str) -> None:
        if self.is_first_rank:
            self.experiment.watcher.stopping(sentence)
