"""Cutting a sequence into text and audio, and putting it together again."""

import pytest
import torch

from solfa.models.mot.routing import IndexRouting, Parts, Routing, SliceRouting

IS_TEXT = torch.tensor([[True, False, True, False, False], [False, True, True, False, False]])
IS_AUDIO = torch.tensor([[False, True, False, True, True], [True, False, False, False, False]])


@pytest.mark.parametrize("num_text", [0, 2, 5])
def test_slices_are_taken_back(num_text: int) -> None:
    x = torch.randn(2, 5, 3)
    parts = SliceRouting(num_text).split(x)
    assert torch.equal(parts.text, x[:, :num_text]) and torch.equal(parts.audio, x[:, num_text:])
    assert torch.equal(SliceRouting(num_text).join(parts), x)
    assert isinstance(SliceRouting(num_text), Routing)


def test_an_index_finds_each_place_in_the_order_of_the_sequence() -> None:
    x, index = torch.randn(2, 5, 3), IndexRouting.of(IS_TEXT, IS_AUDIO)
    parts = index.split(x)
    assert torch.equal(parts.text, torch.stack([x[0, 0], x[0, 2], x[1, 1], x[1, 2]]))
    assert torch.equal(parts.audio, torch.stack([x[0, 1], x[0, 3], x[0, 4], x[1, 0]]))
    assert isinstance(index, Routing)


def test_an_index_is_taken_back_with_zeros_for_padding() -> None:
    x, index = torch.randn(2, 5, 3), IndexRouting.of(IS_TEXT, IS_AUDIO)
    joined = index.join(index.split(x))
    real = IS_TEXT | IS_AUDIO
    assert torch.equal(joined[real], x[real]) and (joined[~real] == 0).all()


@pytest.mark.parametrize("absent", ["text", "audio"])
def test_one_kind_may_be_absent(absent: str) -> None:
    x, everything = torch.randn(2, 5, 3), torch.ones(2, 5, dtype=torch.bool)
    index = IndexRouting.of(~everything, everything) if absent == "text" else IndexRouting.of(everything, ~everything)
    parts = index.split(x)
    assert getattr(parts, absent).shape == (0, 3) and torch.equal(index.join(parts), x)


def test_what_is_joined_has_the_precision_of_the_text() -> None:
    sliced = SliceRouting(2).join(Parts(torch.ones(1, 2, 3).half(), torch.ones(1, 4, 3)))
    indexed = IndexRouting.of(IS_TEXT, IS_AUDIO).join(Parts(torch.ones(4, 3).half(), torch.ones(4, 3)))
    assert sliced.dtype == indexed.dtype == torch.float16


def test_gradients_go_back_to_where_they_came_from() -> None:
    index = IndexRouting.of(IS_TEXT, IS_AUDIO)
    text, audio = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    weight = torch.randn(2, 5, 3)
    (index.join(Parts(text, audio)) * weight).sum().backward()
    assert text.grad is not None and audio.grad is not None
    assert torch.equal(text.grad, index.split(weight).text) and torch.equal(audio.grad, index.split(weight).audio)


def test_a_place_is_not_both() -> None:
    with pytest.raises(AssertionError, match="a place is text or audio"):
        IndexRouting.of(IS_TEXT, IS_TEXT)
