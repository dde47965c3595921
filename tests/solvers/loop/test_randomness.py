"""All generators can be brought back to where they were, and other draws leave no trace in them."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from solfa.solvers.loop.randomness import own_randomness, random_state, restore_random_state, seed_all
from solfa.xp.state_file import read_state, write_state


def draws() -> list[Any]:
    """An odd number of normal draws of each kind, which leaves half a pair in the generators that make two at once."""
    return [
        *(random.random(), random.gauss(0, 1), random.getrandbits(99)),
        *(float(np.random.random()), float(np.random.normal()), int(np.random.randint(2**30))),
        *(float(torch.rand(())), torch.randn(3).tolist(), torch.randperm(9).tolist()),
    ]


@pytest.mark.parametrize("before", range(4))
def test_a_restored_state_draws_the_same_again_even_with_half_a_pair_left(before: int, tmp_path: Path) -> None:
    seed_all("start", 3)
    for _ in range(before):
        draws()
    write_state(tmp_path / "state.pt", {"random": random_state()})
    expected = [draws(), draws()]
    seed_all("elsewhere")
    restore_random_state(read_state(tmp_path / "state.pt")["random"])
    assert [draws(), draws()] == expected


@pytest.mark.parametrize("before", range(4))
def test_own_draws_depend_on_their_names_and_leave_the_outside_untouched(before: int) -> None:
    def outside(*inside: str) -> list[Any]:
        seed_all("start", 3)
        for _ in range(before):
            draws()
        found = []
        for name in inside:
            with own_randomness(name, 1):
                found.append(draws())
        return [*found, draws()]

    first, again, other, after = outside("valid", "valid", "generate")
    assert first == again != other
    assert [after] == outside()


def test_the_outside_is_untouched_when_the_body_raises() -> None:
    seed_all("start", 3)
    draws()
    expected_state = random_state()
    with pytest.raises(KeyError), own_randomness("valid"):
        draws()
        raise KeyError
    found = draws()
    restore_random_state(expected_state)
    assert found == draws()


def test_seeds_differ_by_every_part_and_their_borders() -> None:
    def first(*parts: str | int) -> list[Any]:
        seed_all(*parts)
        return draws()

    assert first("train", 0, 1) == first("train", 0, 1)
    different = [
        first("train", 0, 1),
        first("train", 1, 0),
        first("build", 0, 1),
        first("train", 1),
        first("train", 11),
    ]
    for kind in range(9):
        assert len({str(found[kind]) for found in different}) == 5


def test_draws_on_a_state_do_not_change_it() -> None:
    seed_all("start")
    state = random_state()
    first = draws()
    restore_random_state(state)
    draws()
    restore_random_state(state)
    assert draws() == first
