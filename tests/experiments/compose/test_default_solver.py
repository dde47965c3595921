"""A run that names no solver gets one that suits the machine, and says so in its overrides."""

from typing import Any

import pytest
import torch

from solfa.experiments.compose.default_solver import WITHOUT_GPU, compose_here

ARGV = ["dset.train=music.solfa"]


@pytest.fixture
def has_gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_gpu(is_there: bool) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: is_there)

    return set_gpu


def test_without_a_gpu_it_is_a_small_one_and_part_of_the_experiment(main: Any, has_gpu: Any) -> None:
    has_gpu(False)
    xp, reason = compose_here(main, ARGV)
    assert list(xp.argv) == [WITHOUT_GPU, *ARGV] and WITHOUT_GPU in reason
    assert xp.sig == main.compose([WITHOUT_GPU, *ARGV]).sig != main.compose(ARGV).sig


def test_with_a_gpu_the_experiment_is_what_was_typed(main: Any, has_gpu: Any) -> None:
    has_gpu(True)
    assert compose_here(main, ARGV).xp.sig == main.compose(ARGV).sig
    assert WITHOUT_GPU in compose_here(main, [*ARGV, "device=cpu"]).xp.argv


@pytest.mark.parametrize("choice", ["solver=lm/base", "model=lm/small", "experiment=lm/musicgen-small"])
def test_a_choice_that_was_typed_stays(main: Any, has_gpu: Any, choice: str) -> None:
    has_gpu(False)
    assert compose_here(main, [choice, *ARGV]) == (main.compose([choice, *ARGV]), "")


@pytest.mark.parametrize(("begun", "gpu"), [(ARGV, False), ([WITHOUT_GPU, *ARGV], True)])
def test_an_experiment_that_has_begun_stays_what_it_is(main: Any, has_gpu: Any, begun: list[str], gpu: bool) -> None:
    has_gpu(gpu)
    folder = main.compose(begun).folder
    folder.mkdir(parents=True)
    (folder / "checkpoint.pt").touch()
    xp, reason = compose_here(main, ARGV)
    assert xp.folder == folder and "began" in reason
