"""Conditions: the doubled batch of guidance."""

import torch

from solfa.models.lm.conditions import Conditions


def test_doubling_adds_as_many_rows_of_zeros_that_are_attended() -> None:
    given = Conditions(
        cross=torch.randn(2, 3, 4),
        cross_mask=torch.tensor([[True, False, False], [True, True, False]]),
        prepended=torch.randn(2, 1, 4),
        summed=torch.randn(2, 1, 4),
        pulses=torch.rand(2, 1),
    )
    doubled = given.doubled_with_null()
    for name in ("cross", "prepended", "summed", "pulses"):
        rows, before = getattr(doubled, name), getattr(given, name)
        assert torch.equal(rows[:2], before) and torch.equal(rows[2:], torch.zeros_like(before))
    assert doubled.cross_mask is not None and given.cross_mask is not None
    assert torch.equal(doubled.cross_mask[:2], given.cross_mask) and doubled.cross_mask[2:].all()


def test_nothing_doubled_is_nothing() -> None:
    assert Conditions.none().is_none and Conditions.none().doubled_with_null() == Conditions.none()
    assert not Conditions(summed=torch.zeros(1, 1, 4)).is_none
