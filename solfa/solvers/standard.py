"""StandardSolver: run the stages of a training run in order, and keep its state.

    restore ──► for each epoch: train ──► valid ──► (evaluate) ──► (generate) ──► commit ──► (what changed)
                                 │         └ with averaged weights └ with the best weights so far
                                 └ exactly `optim.updates_per_epoch` updates, wherever they were interrupted

A task is a direct subclass that says how to build its model (`build_model`) and what to do with a batch (`run_step`).
Everything else has a default that you can override: `build_dataloaders`, `best_metric`, `train`, `valid`, `evaluate`,
`generate`.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, TypeVar

import torch
from numpy.typing import NDArray

from solfa.environment.stop_signals import Stopped
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.generator import ClipGenerator, OnStep
from solfa.generate.request import ClipRequest
from solfa.solvers.base_solver import BaseSolver
from solfa.solvers.codec_distortion import expect_originals, measure_distortion
from solfa.solvers.config import SolverConfig, Stage, StageConfig
from solfa.solvers.evidence.comparison import Sides, compare
from solfa.solvers.fabric.devices import gather_objects
from solfa.solvers.judge import ClipPairs, expect_judged, judged_size, real_clips
from solfa.solvers.loop.agreement import agree
from solfa.solvers.loop.averages import Averages, Metrics
from solfa.solvers.loop.randomness import own_randomness
from solfa.solvers.loop.stage_loaders import endless, from_the_start
from solfa.solvers.loop.update import catch_up, unsynchronised
from solfa.solvers.state.checkpoints import RunPosition
from solfa.spelling import plural
from solfa.xp.layout import EVIDENCE

C = TypeVar("C", bound=SolverConfig)

logger = logging.getLogger(__name__)


class StandardSolver(BaseSolver[C]):
    """Trains, validates, evaluates and generates, epoch by epoch; can stop and resume between any two updates.

    A task extends it directly, with at least two methods:

    >>> import torch
    >>> from pathlib import Path
    >>> from solfa.config import parse_config
    >>> from solfa.solvers import Experiment, SolverConfig, StandardSolver, build_optimizer
    >>> class Halves(StandardSolver[SolverConfig]):
    ...     def build_dataloaders(self):
    ...         self.dataloaders["train"] = [torch.ones(2, 4)] * 10
    ...
    ...     def build_model(self):
    ...         self.model = torch.nn.Linear(4, 1)
    ...         self.optimizer = build_optimizer(self.model, self.cfg.optim)
    ...         self.register_stateful("model", "optimizer")
    ...
    ...     def run_step(self, idx, batch, metrics):
    ...         loss = (self.model(batch) - 0.5).square().mean()
    ...         if self.is_training:
    ...             self.update(loss)
    ...         return {**metrics, "loss": loss.detach()}
    >>> optim = {"epochs": 2, "updates_per_epoch": 20, "optimizer": {"kind": "sgd", "lr": 0.01}}
    >>> values = {"solver": "mine:Halves", "device": "cpu", "optim": optim, "logging": {"tensorboard": False}}
    >>> solver = Halves(parse_config(SolverConfig, values, "halves"), Experiment(Path("halves"), "halves"))
    >>> solver.run()
    >>> solver.history[1]["train"]["loss"] < solver.history[0]["train"]["loss"]
    True
    """

    def train(self) -> Metrics:
        return self.common_train_valid("train")

    def valid(self) -> Metrics:
        return self.common_train_valid("valid")

    def evaluate(self) -> Metrics:
        means = self.common_train_valid("evaluate")
        return {**means, **self.judged(means)}

    def judged(self, means: Metrics) -> Metrics:
        """Measure generated clips by `evaluate.metrics`; the same on every process."""
        wanted = self.cfg.evaluate.metrics or ()
        found = {"bits_per_second": self.bits_per_second(means), **self.distortion()} if "bits" in wanted else {}
        if not {*wanted} - {"bits"}:
            return found
        judge = self.experiment.judge
        assert judge is not None, "`run` refuses to start without one"
        pairs = self.clips_to_judge()
        mine = judge(pairs, self.cfg.evaluate, self.cfg.seed) if self.is_first_rank else {}
        return {**found, **gather_objects(self.fabric, mine)[0]}

    def bits_per_second(self, means: Metrics) -> float:
        """Return how many bits a second of audio takes the model, given the means of the evaluate stage."""
        raise ConfigError(f"evaluate.metrics: the solver {self.cfg.solver} cannot count bits; leave `bits` out")

    def distortion(self) -> Metrics:
        """Measure, once, what the codec of the evaluate dataset loses; nothing if its recordings are not known."""
        if self._distortion is None:
            source, codec = self.sources["evaluate"], lambda: self.judged_generator().codec
            found = measure_distortion(source, self.cfg.evaluate, codec, self.as_counted) if self.is_first_rank else {}
            self._distortion = gather_objects(self.fabric, found)[0]
        return self._distortion

    def as_counted(self, array: NDArray[Any]) -> NDArray[Any]:
        """Turn a stored array into that whose bits are counted."""
        return array

    def clips_to_judge(self) -> ClipPairs:
        """Generate clips like the first ones of the evaluate dataset, and decode these."""
        num_clips, seconds = judged_size(self.cfg.evaluate)
        requests = self.judged_requests(num_clips, seconds)
        generator = self.judged_generator()
        if self._real is None:
            self._real = real_clips(self.sources["evaluate"], generator.codec, self.cfg.evaluate)
        drawn = self._draw_share(generator, requests, lambda done, total: self.stop_if_asked())
        return ClipPairs(sorted(drawn, key=lambda clip: clip.name), self._real)

    def judged_requests(self, num_clips: int, seconds: float) -> list[ClipRequest]:
        """Ask for clips like the first ones of the evaluate dataset, named by their place in it: 000, 001, ..."""
        raise ConfigError(f"evaluate.metrics: the solver {self.cfg.solver} generates no clips to judge; leave it out")

    def judged_generator(self) -> ClipGenerator:
        """Build a generator around the current weights."""
        raise ConfigError(f"evaluate.metrics: the solver {self.cfg.solver} generates no clips to judge; leave it out")

    def generate(self) -> Metrics:
        """Make examples to look at or listen to; nothing by default."""
        return {}

    def draw_clips(self, generator: ClipGenerator, requests: Sequence[ClipRequest]) -> list[GeneratedClip]:
        """Draw each process's share of the clips, and pass all of them to the run's watcher."""
        everyone = self._draw_share(generator, requests, self._drawing())
        if self.is_first_rank:
            self.experiment.watcher.clips("generate", self.epoch, everyone)
        return everyone

    def _draw_share(
        self, generator: ClipGenerator, requests: Sequence[ClipRequest], on_step: OnStep
    ) -> list[GeneratedClip]:
        mine = requests[self.fabric.global_rank :: self.fabric.world_size]
        drawn = list(generator.draw(mine, {}, on_step))
        return [clip for clips in gather_objects(self.fabric, drawn) for clip in clips]

    # The order of things.

    def run(self) -> None:
        """Restore the saved state, if any, and do the rest of the run."""
        self.experiment.folder.mkdir(parents=True, exist_ok=True)
        expect_judged(self.cfg.evaluate, self.experiment.judge, self.sources.get("evaluate"))
        expect_originals(self.cfg.evaluate, self.sources.get("evaluate"))
        with self._signals, ExitStack() as stack:
            stack.enter_context(self._persistence.mirroring())
            self.restore()
            if self.is_first_rank:
                watcher = self.experiment.watcher
                watcher.started(self.experiment.folder, self.cfg.model_dump(mode="json"))
                stack.callback(watcher.closed)
            try:
                if self.cfg.execute_only:
                    self._run_only(self.cfg.execute_only)
                else:
                    while self.epoch <= self.cfg.optim.epochs:
                        self.run_epoch()
                    self._tell_change()
                    logger.info("done: %s in %s", plural(self.epoch - 1, "epoch"), self.experiment.folder)
            except Stopped as stopped:
                if self.is_training:
                    self._save()
                logger.info("stopped by %s; run the same command to continue", stopped)
                raise SystemExit(stopped.exit_code) from None

    def restore(self) -> None:
        """Resume from the experiment's folder, or start, with the weights of `continue_from` if that is set."""
        position = self._persistence.restore()
        if position is None:
            self.start_ema()
            if self._persistence.started_from is not None and self.cfg.execute_only is None:
                self._start.keep(is_first_rank=self.is_first_rank)
            return
        self.epoch, self.num_updates, self.history, self.averages = position
        if self.is_first_rank:
            self.experiment.write_history(self.history)

    @property
    def _position(self) -> RunPosition:
        return RunPosition(self.epoch, self.num_updates, self.history, self.averages)

    def _save(self) -> None:
        self._persistence.save(self._position)

    def run_epoch(self) -> None:
        """Run the stages of one epoch and keep their results."""
        results: dict[str, Metrics] = {"train": self.run_stage("train")}
        # The rest may take long and changes no training state: if stopped there, the run resumes from here.
        self._save()
        with self._averaged_weights():
            if "valid" in self.dataloaders:
                results["valid"] = self.run_stage("valid")
            self._persistence.note_best(self.epoch, results, self.best_metric(), takes_last=self.last_is_best())
        due = self._due_stages()
        with self._best_weights() if due else nullcontext():
            for stage in due:
                results[stage] = self.run_stage(stage)
        self._commit(results)

    def run_stage(self, stage: Stage) -> Metrics:
        """Run one stage; all but training leave the random generators and the modules' modes as they found them."""
        started = time.monotonic()
        self._stage = stage
        stages = {"train": self.train, "valid": self.valid, "evaluate": self.evaluate, "generate": self.generate}
        for module in self._registry.modules.values():
            module.train(stage == "train")
        if stage == "train":
            metrics = stages[stage]()
        else:
            with torch.no_grad(), own_randomness(stage, self.cfg.seed, self.epoch, self.fabric.global_rank):
                # A stage that has nothing to report may return None.
                metrics = stages[stage]() or {}
        self._stage = None
        if self.is_first_rank:
            self.experiment.watcher.stage_finished(stage, self.epoch, metrics, time.monotonic() - started)
        return metrics

    def common_train_valid(self, stage: Stage) -> Metrics:
        """Run `run_step` over the batches of a stage and return the means of its metrics over all processes."""
        if stage == "train":
            averages = self._train_updates()
        else:
            averages = self._all_batches(stage)
        states = gather_objects(self.fabric, averages.state())
        means = self.summarise(Averages.of(states).means())
        if stage == "train":
            for name, schedule in self.schedules.items():
                means["lr" if name == "optimizer" else f"lr_{name}"] = schedule.lr
        return means

    def _train_updates(self) -> Averages:
        optim = self.cfg.optim
        self._announce("train", optim.updates_per_epoch)
        with endless(self.dataloaders["train"]) as batches:
            while self.num_updates < optim.updates_per_epoch:
                positions = [schedule.updates for schedule in self.schedules.values()]
                for part in range(optim.accumulate):
                    self._accumulates = part + 1 < optim.accumulate
                    apart = self._registry.modules.values() if self._accumulates else ()
                    with unsynchronised(self.fabric, apart):
                        self._step("train", self.num_updates, next(batches), self.averages)
                catch_up(self.schedules.values(), positions)
                if self.ema is not None:
                    self.ema.update()
                self.num_updates += 1
                self._show(self.num_updates, optim.updates_per_epoch, self.averages)
                self._save_or_stop()
        return self.averages

    def _all_batches(self, stage: Stage) -> Averages:
        averages = Averages()
        loader = self.dataloaders[stage]
        total = len(loader)
        self._announce(stage, total)
        with from_the_start(loader) as batches:
            for index, batch in enumerate(batches):
                self._step(stage, index, batch, averages)
                self._show(index + 1, total, averages)
                self.stop_if_asked()
        return averages

    def _step(self, stage: Stage, index: int, batch: Any, averages: Averages) -> None:
        self._batch = self.fabric.to_device(batch)
        metrics = self.run_step(index, self._batch, {})
        if getattr(batch, "is_padding", False):
            return  # the step was only to keep in sync with the other processes
        averages.add({name: value for name, value in metrics.items() if value is not None}, self.batch_weight(batch))

    def stop_if_asked(self) -> None:
        """Leave a stage that does not train as soon as a signal arrives; every process gets its own."""
        if self._signals.number:
            raise Stopped(self._signals.number)

    def _save_or_stop(self) -> None:
        # Asking the others drains a GPU's queue of work, so there it is not done at every update.
        if self.device.type != "cpu" and self.num_updates % 10:
            return
        number, save = agree(self.fabric, self._signals.number, int(self._persistence.is_due()))
        if number:
            raise Stopped(number)
        if save:
            self._save()

    def _commit(self, results: dict[str, Metrics]) -> None:
        """End the epoch: later runs see what is written here."""
        for schedule in self.schedules.values():
            schedule.observe(results)
        self.history.append(results)
        self.epoch, self.num_updates, self.averages = self.epoch + 1, 0, Averages()
        self._save()
        self._persistence.keep_copy(self.epoch - 1)
        if self.is_first_rank:
            self.experiment.write_history(self.history)
            self._persistence.mirror(self._position)

    def _tell_change(self) -> None:
        """Say what became of the weights that the run started from, once."""
        start, started_from = self._start, self._persistence.started_from
        if started_from is None or not start.are_kept or (self.experiment.folder / EVIDENCE).exists():
            return
        sides = Sides(start.restored, self._best_weights, start.moved)
        evidence = compare(self, sides, started_from, self._persistence.best_epoch)
        if self.is_first_rank:
            self.experiment.watcher.changed(evidence)
            self.experiment.write_evidence(evidence.values())
            start.forget()

    def _run_only(self, stage: Stage) -> None:
        self.epoch = max(1, self.epoch - 1)
        weights = self._averaged_weights() if stage == "valid" else self._best_weights()
        with weights:
            metrics = self.run_stage(stage)
        if self.is_first_rank:
            self.experiment.write_stage(stage, self.epoch, metrics)
            self._persistence.mirror(self._position)

    def _due_stages(self) -> list[Stage]:
        last = self.epoch == self.cfg.optim.epochs
        due: list[Stage] = []
        if "evaluate" in self.dataloaders and _is_due(self.cfg.evaluate, self.epoch, last):
            due.append("evaluate")
        if _is_due(self.cfg.generate, self.epoch, last):
            due.append("generate")
        return due

    def _averaged_weights(self) -> AbstractContextManager[None]:
        return self.ema.swapped() if self.ema is not None else nullcontext()

    def _best_weights(self) -> AbstractContextManager[None]:
        return self._registry.swapped(self._persistence.best_states())

    def _announce(self, stage: Stage, total: int) -> None:
        if self.is_first_rank:
            self.experiment.watcher.stage_started(stage, self.epoch, total)

    def _show(self, done: int, total: int, averages: Averages) -> None:
        if not self.is_first_rank:
            return
        if done % self.cfg.logging.log_updates == 0 or done == total:
            self.experiment.watcher.step(done, averages.means())
        else:
            self.experiment.watcher.tick(done)

    def _drawing(self) -> Callable[[int, int], None]:
        """Follow the drawing of clips, and leave it on a signal."""
        announced = False

        def on_step(done: int, total: int) -> None:
            nonlocal announced
            self.stop_if_asked()
            if not announced:
                announced = True
                self._announce("generate", total)
            if self.is_first_rank:
                self.experiment.watcher.tick(done)

        return on_step


def _is_due(config: StageConfig, epoch: int, last: bool) -> bool:
    return config.every is not None and (last or epoch % config.every == 0)
