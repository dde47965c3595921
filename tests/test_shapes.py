"""What signatures say of shapes and types is checked while tests run."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

import solfa.ops.patterns
from solfa.ops.patterns import steps_of
from solfa.ops.temperature import draw_uniforms
from tests.shapes import checked


@checked
def doubled(a: Float[Tensor, "B T"], b: Float[Tensor, "B T"], *, wrong: bool = False) -> Float[Tensor, "B 2*T"]:
    return a if wrong else torch.cat([a, b], dim=1)


@checked
def chosen(a: Float[Tensor, "B T"], num_frames: int) -> Float[Tensor, "B {num_frames}"]:
    return a[:, :num_frames]


@checked
def around(a: Float[Tensor, "B T"]) -> Float[Tensor, "T B"]:
    return doubled(a.mT, a.mT)[:, : a.shape[0]]


@checked
def rows(a: Float[Tensor, "B T"]) -> Iterator[Float[Tensor, "T"]]:
    yield from a


@checked
def named(later: "Unknown") -> "Unknown":  # type: ignore[name-defined]
    return later


@checked
@dataclass
class Pair:
    a: Float[Tensor, "B T"]
    b: Float[Tensor, "B"]


def test_what_fits_goes_through_and_an_axis_means_another_number_in_another_call() -> None:
    a = torch.zeros(2, 3)
    assert doubled(a, a).shape == (2, 6)
    assert doubled(a.mT, a.mT).shape == (3, 4)
    assert around(a).shape == (3, 2)
    assert chosen(a, 2).shape == (2, 2)
    assert len(list(rows(a))) == 2
    assert named(a) is a
    assert Pair(a, torch.zeros(2)).a is a


@pytest.mark.parametrize(
    "call",
    [
        lambda a: doubled(a, a[:1]),
        lambda a: doubled(a, a.long()),
        lambda a: doubled(a, a[0]),
        lambda a: doubled(a, a, wrong=True),
        lambda a: doubled(a, a, wrong="yes"),
        lambda a: chosen(a, 5),
        lambda a: rows(a[0]),
        lambda a: Pair(a, torch.zeros(3)),
    ],
    ids=["axis", "type of numbers", "rank", "returned", "type", "returned, computed", "generator", "dataclass"],
)
def test_what_does_not_fit_is_refused(call: Any) -> None:
    with pytest.raises(Exception, match=r"(?i)type.?(hint|check)"):
        call(torch.zeros(2, 3))


def test_functions_and_methods_of_the_package_are_checked() -> None:
    with pytest.raises(Exception, match=r"(?i)type.?(hint|check)"):
        steps_of(torch.zeros(2, 3), 1)
    with pytest.raises(Exception, match=r"(?i)type.?(hint|check)"):
        draw_uniforms("two", torch.Generator())  # type: ignore[arg-type]


def test_what_other_processes_read_has_no_checks() -> None:
    path = str(solfa.ops.patterns.__file__)
    assert "__shapes__" in vars(solfa.ops.patterns)
    # Reads what Python has compiled beside the checked module, or compiles it as Python does.
    code = SourceFileLoader("plain", path).get_code("plain")
    assert code is not None and "__shapes__" not in code.co_names
