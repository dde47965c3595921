import json
import logging
import os
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from solfa.data.batching.collation import Batch
from solfa.errors import ConfigError, SolfaError
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.watchers.protocol import Watcher
from solfa.xp.state_file import read_state
from tests.solvers.conftest import Crash, Toy, check_resume, same_run
from tests.solvers.toy import ToySolver


class Diary(Watcher):
    """Notes the order of events."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def stage_finished(self, stage: str, epoch: int, metrics: Any, seconds: float) -> None:
        self.events.append((stage, epoch))


def test_stages_run_in_order_every_so_many_epochs_and_after_the_last(toy: Toy, tmp_path: Path) -> None:
    diary = Diary()
    toy(tmp_path, diary).run()
    first = [("train", 1), ("valid", 1)]
    second = [("train", 2), ("valid", 2), ("evaluate", 2), ("generate", 2)]
    assert diary.events == [*first, *second, *((stage, 3) for stage, _ in second)]


@pytest.mark.parametrize(("num_clips", "updates"), [(5, 7), (22, 2), (22, 13)])
def test_an_epoch_has_exactly_its_updates_whatever_the_length_of_the_loader(
    toy: Toy, tmp_path: Path, num_clips: int, updates: int
) -> None:
    solver = toy(tmp_path, num_clips=num_clips, optim__updates_per_epoch=updates, optim__epochs=2)
    solver.run()
    assert solver.schedules["optimizer"].updates == 2 * updates


def test_run_interrupted_after_any_update_ends_as_an_unbroken_one(toy: Toy, tmp_path: Path) -> None:
    check_resume(tmp_path, partial(toy, checkpoint__minutes=1e-9), 1, 7, 8, 20)


class Wrapped(torch.nn.Module):
    """Layers in a module of our own: torch compiles none of its own modules."""

    def __init__(self, layers: torch.nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class WrappedToy(ToySolver):
    def build_model(self) -> None:
        super().build_model()
        self.model = Wrapped(self.model)


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on CPUs")
def test_a_compiled_run_resumes_exactly_and_learns_what_others_learn(toy: Toy, tmp_path: Path) -> None:
    check_resume(tmp_path, partial(toy, solver=WrappedToy, compile=True, checkpoint__minutes=1e-9), 7)
    plain = toy(tmp_path / "plain", solver=WrappedToy)
    plain.run()
    assert torch._dynamo.utils.counters["frames"]["ok"] > 0, "it was compiled"
    names = [read_state(tmp_path / run / "best.pt")["states"]["model"].keys() for run in ("whole", "plain")]
    assert names[0] == names[1]
    # Dropout draws other numbers there, so the weights are others.
    compiled_history = json.loads((tmp_path / "whole" / "history.json").read_text())
    assert compiled_history[-1]["valid"]["loss"] == pytest.approx(plain.history[-1]["valid"]["loss"], rel=0.2)


def test_resume_with_other_numbers_of_workers_changes_nothing(toy: Toy, tmp_path: Path) -> None:
    toy(tmp_path / "whole").run()
    with pytest.raises(KeyboardInterrupt):
        toy(tmp_path / "broken", Crash(5), checkpoint__minutes=1e-9).run()
    toy(tmp_path / "broken", num_workers=2).run()
    assert same_run(tmp_path / "whole", tmp_path / "broken")


def test_accumulated_batches_make_one_update_of_their_mean_gradient(toy: Toy, tmp_path: Path) -> None:
    class NoDropout(ToySolver):
        def build_model(self) -> None:
            super().build_model()
            self.model[2].p = 0.0

    common = {"optim__epochs": 2, "optim__updates_per_epoch": 2, "optim__clip_norm": None, "solver": NoDropout}
    # Twenty clips are five batches of four or ten of two: the same clips in the same order.
    whole = toy(tmp_path / "a", num_clips=20, batch_size=4, **common)
    parts = toy(tmp_path / "b", num_clips=20, batch_size=2, optim__accumulate=2, **common)
    whole.run()
    parts.run()
    for left, right in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(left, right, atol=1e-6, rtol=1e-5)


def test_validation_uses_averaged_weights_and_puts_the_trained_ones_back(toy: Toy, tmp_path: Path) -> None:
    seen: list[dict[str, torch.Tensor]] = []

    class Looking(ToySolver):
        def valid(self) -> Metrics:
            seen.append({name: value.clone() for name, value in self.model.state_dict().items()})
            return super().valid()

    solver = toy(tmp_path, solver=Looking, optim__epochs=1)
    solver.run()
    assert solver.ema is not None
    averages = solver.ema.state_dict()["averages"]["model"]
    trained = solver.model.state_dict()
    assert all(torch.equal(seen[0][name], averages[name]) for name in averages)
    assert any(not torch.equal(seen[0][name], trained[name]) for name in averages)
    best = read_state(tmp_path / "best.pt")["states"]["model"]
    assert all(torch.equal(best[name], averages[name]) for name in averages)


def test_evaluation_and_generation_use_the_best_weights_not_the_last(toy: Toy, tmp_path: Path) -> None:
    seen: list[float] = []

    class Worsening(ToySolver):
        def valid(self) -> Metrics:
            return {"loss": float(self.epoch)}

        def evaluate(self) -> Metrics:
            seen.append(float(next(self.model.parameters()).sum()))
            return {}

    toy(tmp_path, solver=Worsening, evaluate__every=1).run()
    best = read_state(tmp_path / "best.pt")
    assert best["epoch"] == 1
    expected = float(best["states"]["model"]["0.weight"].sum())
    assert seen == [expected] * 3


def test_stages_other_than_training_do_not_move_the_random_generators(toy: Toy, tmp_path: Path) -> None:
    toy(tmp_path / "often", generate__every=1, evaluate__every=1).run()
    toy(tmp_path / "never", generate__every=None, evaluate__every=None).run()
    states = [read_state(tmp_path / name / "checkpoint.pt")["states"]["model"] for name in ("often", "never")]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_execute_only_runs_one_stage_and_trains_nothing(toy: Toy, tmp_path: Path) -> None:
    toy(tmp_path).run()
    before = (tmp_path / "checkpoint.pt").read_bytes()
    diary = Diary()
    toy(tmp_path, diary, execute_only="evaluate").run()
    assert diary.events == [("evaluate", 3)]
    assert (tmp_path / "checkpoint.pt").read_bytes() == before
    assert (tmp_path / "evaluate.json").exists()


def test_execute_only_without_anything_trained_is_refused(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"execute_only=.*no checkpoint"):
        toy(tmp_path, execute_only="generate").run()


def test_a_loss_that_is_not_finite_stops_the_run_with_the_clips_and_keeps_the_last_state(
    toy: Toy, tmp_path: Path
) -> None:
    solver = toy(tmp_path, broken_clip="clip7", checkpoint__minutes=1e-9, optim__updates_per_epoch=50)
    with pytest.raises(SolfaError, match=r"finite loss, found nan; .*'clip7'"):
        solver.run()
    if (tmp_path / "checkpoint.pt").exists():
        state = read_state(tmp_path / "checkpoint.pt")
        assert all(torch.isfinite(value).all() for value in state["states"]["model"].values())
    assert all(torch.isfinite(parameter).all() for parameter in solver.model.parameters())


def test_a_gradient_that_is_not_finite_is_not_applied(toy: Toy, tmp_path: Path) -> None:
    class Exploding(ToySolver):
        def run_step(self, idx: int, batch: Batch, metrics: Metrics) -> Metrics:
            # The square root has a finite value and an infinite slope at zero.
            return {"norm": self.update((self.model(batch.arrays) * 0).abs().sum().sqrt())}

    solver = toy(tmp_path, solver=Exploding)
    with pytest.raises(SolfaError, match=r"norm of the gradient, found"):
        solver.run()
    assert all(torch.isfinite(parameter).all() for parameter in solver.model.parameters())


def test_sigterm_saves_between_two_updates_and_the_rest_follows_exactly(toy: Toy, tmp_path: Path) -> None:
    class Terminate(Watcher):
        def step(self, done: int, metrics: Any) -> None:
            if done == 4:
                os.kill(os.getpid(), signal.SIGTERM)

    toy(tmp_path / "whole").run()
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stopped:
        toy(tmp_path / "stopped", Terminate(), checkpoint__minutes=None).run()
    assert stopped.value.code == 128 + signal.SIGTERM
    assert read_state(tmp_path / "stopped" / "checkpoint.pt")["num_updates"] == 4
    assert signal.getsignal(signal.SIGTERM) is before
    toy(tmp_path / "stopped").run()
    assert same_run(tmp_path / "whole", tmp_path / "stopped")


def test_copies_are_kept_every_so_many_epochs_and_only_the_last_of_them(toy: Toy, tmp_path: Path) -> None:
    toy(tmp_path, optim__epochs=7, checkpoint__save_every=2, checkpoint__keep_last=2).run()
    assert sorted(path.name for path in tmp_path.glob("checkpoint_*")) == ["checkpoint_0004.pt", "checkpoint_0006.pt"]
    assert read_state(tmp_path / "checkpoint_0006.pt")["epoch"] == 7


def test_continue_from_another_experiment_takes_its_best_weights_and_says_so(
    toy: Toy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    toy(tmp_path / "first").run()
    with caplog.at_level(logging.INFO):
        solver = toy(tmp_path / "second", continue_from=str(tmp_path / "first"), optim__optimizer__lr=1e-12)
        solver.restore()
    best = read_state(tmp_path / "first" / "best.pt")["states"]["model"]
    assert all(torch.equal(best[name], value) for name, value in solver.model.state_dict().items())
    assert solver.schedules["optimizer"].updates == 0
    assert "continue_from: loaded model from" in caplog.text
    assert "optimizer, schedule start fresh" in caplog.text


def test_continue_from_keeps_optimizer_and_schedule_when_asked(toy: Toy, tmp_path: Path) -> None:
    toy(tmp_path / "first").run()
    solver = toy(
        tmp_path / "second",
        continue_from=str(tmp_path / "first"),
        continue_keep=["optimizer", "schedule"],
        optim__epochs=9,
    )
    solver.restore()
    assert solver.schedules["optimizer"].updates == 21
    steps = [float(state["step"]) for state in solver.optimizer.state_dict()["state"].values()]
    assert steps == [21.0] * len(steps)


def test_own_checkpoint_comes_before_continue_from(toy: Toy, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    toy(tmp_path / "first").run()
    toy(tmp_path / "second", seed=5).run()
    own = read_state(tmp_path / "second" / "checkpoint.pt")["states"]["model"]
    with caplog.at_level(logging.INFO):
        solver = toy(tmp_path / "second", seed=5, continue_from=str(tmp_path / "first"))
        solver.restore()
    assert all(torch.equal(own[name], value) for name, value in solver.model.state_dict().items())
    assert "resuming" in caplog.text


def test_unknown_pretrained_weights_get_a_sentence(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"continue_from: .*found "):
        toy(tmp_path, continue_from=str(tmp_path / "nowhere")).run()


def test_registering_what_is_not_there_or_no_module_is_refused(toy: Toy, tmp_path: Path) -> None:
    class Forgetful(ToySolver):
        def build_model(self) -> None:
            self.register_stateful("model")

    class Confused(ToySolver):
        def build_model(self) -> None:
            self.model = 3
            self.register_best("model")

    with pytest.raises(ConfigError, match="no attribute 'model'"):
        toy(tmp_path, solver=Forgetful)
    with pytest.raises(ConfigError, match=r"module, found int"):
        toy(tmp_path, solver=Confused)


def test_an_unknown_best_metric_is_answered_with_those_there_are(toy: Toy, tmp_path: Path) -> None:
    class Wishful(ToySolver):
        def best_metric(self) -> str:
            return "fad"

    with pytest.raises(ConfigError, match=r"best_metric: .*loss, found 'fad'"):
        toy(tmp_path, solver=Wishful).run()


def test_plain_values_can_be_stateful(toy: Toy, tmp_path: Path) -> None:
    class Counting(ToySolver):
        def build_model(self) -> None:
            super().build_model()
            self.seen = 0
            self.register_stateful("seen")

        def run_step(self, idx: int, batch: Batch, metrics: Metrics) -> Metrics:
            if self.is_training:
                self.seen += len(batch)
            return super().run_step(idx, batch, metrics)

    with pytest.raises(KeyboardInterrupt):
        toy(tmp_path, Crash(5), solver=Counting, checkpoint__minutes=1e-9).run()
    solver = toy(tmp_path, solver=Counting)
    solver.run()
    whole = toy(tmp_path / "whole", solver=Counting)
    whole.run()
    assert solver.seen == whole.seen > 0
