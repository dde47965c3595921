"""What a run saves besides its last state, and what it refuses to start from; resuming is tested with whole runs."""

import logging
import os
from pathlib import Path

import pytest
import torch

from solfa.errors import ConfigError
from solfa.solvers.state.checkpoints import Persistence
from solfa.xp.state_file import read_state, write_state
from tests.solvers.conftest import Toy
from tests.solvers.toy import ToySolver

SHORT = {"optim__epochs": 2, "optim__updates_per_epoch": 2}


def checkpoints_of(solver: ToySolver) -> Persistence:
    return solver._persistence


@pytest.mark.parametrize("has_links", [True, False], ids=["hard links", "no hard links"])
def test_a_copy_keeps_the_state_of_its_epoch_when_the_next_is_saved(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    if not has_links:

        def refuse(*names: object) -> None:
            raise OSError("Operation not supported")

        monkeypatch.setattr(os, "link", refuse)
    toy(tmp_path, **SHORT, checkpoint__save_every=1).run()
    first, second, last = (
        read_state(tmp_path / name) for name in ("checkpoint_0001.pt", "checkpoint_0002.pt", "checkpoint.pt")
    )
    assert (first["epoch"], second["epoch"], last["epoch"]) == (2, 3, 3)
    weights = [state["states"]["model"]["0.weight"] for state in (first, second, last)]
    assert not torch.equal(weights[0], weights[1]) and torch.equal(weights[1], weights[2])


def test_without_a_metric_the_latest_weights_are_the_best(toy: Toy, tmp_path: Path) -> None:
    class Indifferent(ToySolver):
        def best_metric(self) -> None:  # type: ignore[override]
            return None

    solver = toy(tmp_path, solver=Indifferent, **SHORT)
    solver.run()
    assert checkpoints_of(solver).best_epoch == 2 and read_state(tmp_path / "best.pt")["epoch"] == 2


def test_a_run_says_where_it_can_resume_from(toy: Toy, tmp_path: Path) -> None:
    solver = toy(tmp_path, **SHORT)
    assert checkpoints_of(solver).describe_saved() == "nothing has been saved yet"
    assert checkpoints_of(solver).best_states() == {} and checkpoints_of(solver).best_epoch == 0
    solver.run()
    assert str(tmp_path / "checkpoint.pt") in checkpoints_of(solver).describe_saved()
    assert checkpoints_of(solver).best_states().keys() == {"model"}


def test_saving_within_an_epoch_is_due_after_some_minutes_or_never(toy: Toy, tmp_path: Path) -> None:
    at_once, never = (toy(tmp_path, checkpoint__minutes=minutes) for minutes in (1e-9, None))
    assert checkpoints_of(at_once).is_due() and not checkpoints_of(never).is_due()


def test_a_state_of_more_processes_is_resumed_by_one_and_it_says_so(
    toy: Toy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    toy(tmp_path, **SHORT).run()
    state = read_state(tmp_path / "checkpoint.pt")
    doubled = {**state, "random": state["random"] * 2, "averages": state["averages"] * 2}
    write_state(tmp_path / "checkpoint.pt", {key: value for key, value in doubled.items() if key != "format"})
    with caplog.at_level(logging.INFO):
        position = checkpoints_of(toy(tmp_path, **SHORT)).restore()
    assert position is not None and (position.epoch, position.num_updates) == (3, 0)
    assert "saved by 2 processes, resumed by 1" in caplog.text


def test_weights_alone_bring_no_optimiser(toy: Toy, tmp_path: Path) -> None:
    toy(tmp_path / "first", **SHORT).run()
    best = tmp_path / "first" / "best.pt"
    with pytest.raises(ConfigError, match=r"continue_keep=optimizer: .*best.pt has no optimiser state"):
        toy(tmp_path / "second", continue_from=str(best), continue_keep=["optimizer"]).restore()


def test_weights_of_another_solver_are_refused_by_name(toy: Toy, tmp_path: Path) -> None:
    write_state(tmp_path / "best.pt", {"epoch": 1, "states": {"network": {}}})
    with pytest.raises(ConfigError, match=r"best.pt has no model; it belongs to another solver"):
        toy(tmp_path / "second", continue_from=str(tmp_path / "best.pt")).restore()
