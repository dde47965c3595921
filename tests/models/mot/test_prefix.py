"""What audio attends of the texts before it: padded to the longest, and taken back."""

import pytest
import torch
from torch import Tensor

from solfa.models.lm.generation import BatchConditions
from solfa.models.mot.prefix import join_texts, unpadded

LAYERS, HEADS, WIDTH = 3, 2, 4


def kept(num_tokens: int) -> Tensor:
    """What the base keeps of a text: all keys, then all values."""
    return torch.randn(2 * LAYERS, HEADS, num_tokens, WIDTH)


@pytest.mark.parametrize("lengths", [(4, 1, 3), (2, 2), (0, 3), (0, 0), (5,)])
def test_texts_of_any_lengths_are_joined_and_taken_back(lengths: tuple[int, ...]) -> None:
    texts = [kept(length) for length in lengths]
    prefix = join_texts(texts)
    assert prefix.num_steps == max(lengths) and prefix.lengths.tolist() == list(lengths)
    assert prefix.num_rows() == {"text": len(lengths)}
    for row, (text, back) in enumerate(zip(texts, unpadded(prefix), strict=True)):
        assert torch.equal(text, back)
        for layer in range(LAYERS):
            assert torch.equal(prefix.keys[layer, row, :, : lengths[row]], text[layer])
            assert torch.equal(prefix.values[layer, row, :, : lengths[row]], text[LAYERS + layer])
            assert (prefix.keys[layer, row, :, lengths[row] :] == 0).all()


def test_the_mask_is_false_where_there_is_padding_and_absent_where_there_is_none() -> None:
    mask = join_texts([kept(3), kept(0), kept(2)]).mask
    assert mask is not None
    assert mask.tolist() == [[True] * 3, [False] * 3, [True, True, False]]
    assert join_texts([kept(2), kept(2)]).mask is None
    assert join_texts([kept(0), kept(0)]).mask is None


def test_there_is_something_to_guide_by_once_a_text_stands_for_none() -> None:
    assert join_texts([kept(3)]).is_none
    prefix = join_texts([kept(3)], kept(1))
    assert not prefix.is_none and isinstance(prefix, BatchConditions)


@pytest.mark.parametrize("null_length", [0, 1, 6])
def test_guidance_doubles_the_batch_with_the_text_that_stands_for_none(null_length: int) -> None:
    texts, null = [kept(4), kept(2)], kept(null_length)
    doubled = join_texts(texts, null).doubled_with_null()
    assert doubled.lengths.tolist() == [4, 2, null_length, null_length]
    for expected, found in zip([*texts, null, null], unpadded(doubled), strict=True):
        assert torch.equal(expected, found)
