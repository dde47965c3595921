from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from solfa.config import parse_config
from solfa.solvers.experiment import Experiment
from solfa.solvers.standard import StandardSolver
from solfa.solvers.watchers.protocol import Watcher, Watchers
from solfa.xp.state_file import read_state
from tests.disks import no_waiting_for_disks  # noqa: F401
from tests.solvers.toy import ToyConfig, ToySolver, toy_values

Toy = Callable[..., ToySolver]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def nobody_launched_us(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def toy() -> Toy:
    """Build a toy solver in a folder: `toy(tmp_path, optim__epochs=5)`."""

    def build(folder: Path, watcher: Watcher | None = None, solver: type[ToySolver] = ToySolver, **changes: Any):
        cfg = parse_config(ToyConfig, toy_values(**changes), "toy")
        return solver(cfg, Experiment(folder, "toy", watcher or Watchers(())))

    return build


def equal(left: Any, right: Any) -> bool:
    """Compare states to the last bit."""
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(equal(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def same_run(left: Path, right: Path) -> bool:
    """Tell whether two folders hold the same training state, best weights and history."""
    files = ("checkpoint.pt", "best.pt")
    states = all(equal(_comparable(left / name), _comparable(right / name)) for name in files)
    return states and (left / "history.json").read_bytes() == (right / "history.json").read_bytes()


def _comparable(path: Path) -> dict[str, Any]:
    state = read_state(path)
    state.pop("provenance")  # says by which command it was trained
    for generators in state.get("random", []):
        # The type checks of the tests look at random items of lists, with Python's own generator.
        del generators["python"]
    return state


class Crash(Watcher):
    """Fails at the n-th step that it is told of."""

    def __init__(self, after: int) -> None:
        self.left = after

    def step(self, done: int, metrics: Any) -> None:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


def check_resume(folder: Path, build: Callable[[Path, Watcher], StandardSolver[Any]], *stops: int) -> None:
    """Check that a run that is interrupted after a step, whichever of `stops`, and resumed equals an unbroken one."""
    build(folder / "whole", Watchers(())).run()
    for after in stops:
        broken = folder / f"broken{after}"
        with pytest.raises(KeyboardInterrupt):
            build(broken, Crash(after)).run()
        build(broken, Watchers(())).run()
        assert same_run(folder / "whole", broken), f"interrupted after {after} steps"
