"""Codes as ids behind a text's vocabulary: against the definition, one id at a time, and back again."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from solfa.errors import ConfigError
from solfa.ops.extended_ids import codes_of_ids, extend_ids
from solfa.ops.patterns import Flat, lay_out

LLAMA_3 = 128_256


@settings(max_examples=40, deadline=None)
@given(
    num_codebooks=st.integers(1, 5),
    num_frames=st.integers(1, 6),
    codebook_size=st.integers(1, 2048),
    shift=st.sampled_from([0, 7, LLAMA_3]),
    offset=st.booleans(),
)
def test_ids_are_as_defined_and_taken_back(
    num_codebooks: int, num_frames: int, codebook_size: int, shift: int, offset: bool
) -> None:
    codes = torch.randint(0, codebook_size, (2, num_codebooks, num_frames))
    ids = extend_ids(codes, codebook_size, shift, offset=offset)
    assert ids.shape == (2, num_frames * num_codebooks)
    for b in range(2):
        for s in range(num_frames * num_codebooks):
            t, k = divmod(s, num_codebooks)
            assert ids[b, s] == shift + (k * codebook_size if offset else 0) + codes[b, k, t]
    assert torch.equal(codes_of_ids(ids, num_codebooks, codebook_size, shift, offset=offset), codes)


def test_four_codebooks_of_musicgen_behind_llama_3() -> None:
    codes = torch.tensor([[[5, 2047], [6, 0], [7, 1], [8, 2]]])
    shared = extend_ids(codes, 2048, LLAMA_3, offset=False)
    assert shared.tolist() == [[128_261, 128_262, 128_263, 128_264, 130_303, 128_256, 128_257, 128_258]]
    own = extend_ids(codes, 2048, LLAMA_3, offset=True)
    assert own.tolist() == [[128_261, 130_310, 132_359, 134_408, 130_303, 130_304, 132_353, 134_402]]


@pytest.mark.parametrize("num_frames", [1, 4])
def test_ids_stand_at_the_steps_of_the_flat_layout(num_frames: int) -> None:
    codes = torch.randint(0, 9, (2, 3, num_frames))
    laid = lay_out(codes, Flat().layout(3, num_frames), special=-1)
    assert torch.equal(extend_ids(codes, 9, 0, offset=False), laid.amax(dim=1))


def test_no_ids_are_no_codes() -> None:
    assert codes_of_ids(torch.zeros(2, 0, dtype=torch.int64), 4, 9, 5, offset=True).shape == (2, 4, 0)


@pytest.mark.parametrize(
    ("offset", "step", "wrong", "fault"),
    [
        (True, 0, LLAMA_3 - 1, r"128256 to 128264 for codebook 0 at step 0, found 128255"),
        (True, 4, LLAMA_3, r"128265 to 128273 for codebook 1 at step 4, found 128256"),
        (True, 5, LLAMA_3 + 27, r"128274 to 128282 for codebook 2 at step 5, found 128283"),
        (False, 2, LLAMA_3 + 9, r"128256 to 128264 for codebook 2 at step 2, found 128265"),
        (False, 3, 12, r"128256 to 128264 for codebook 0 at step 3, found 12"),
    ],
)
def test_an_id_that_is_not_of_the_codebook_whose_turn_it_is_is_refused(
    offset: bool, step: int, wrong: int, fault: str
) -> None:
    ids = extend_ids(torch.randint(0, 9, (2, 3, 2)), 9, LLAMA_3, offset=offset)
    ids[1, step] = wrong
    with pytest.raises(ConfigError, match=f"^audio ids: .*{fault}; .*vocabulary"):
        codes_of_ids(ids, 3, 9, LLAMA_3, offset=offset)


def test_half_a_frame_is_refused() -> None:
    ids = extend_ids(torch.randint(0, 9, (1, 3, 2)), 9, 0, offset=True)[:, :-1]
    with pytest.raises(ConfigError, match=r"^audio ids: .*frames of 3 ids, found 5 "):
        codes_of_ids(ids, 3, 9, 0, offset=True)


def test_codes_that_are_read_in_the_wrong_order_are_not_taken_for_codes() -> None:
    ids = extend_ids(torch.randint(0, 9, (1, 3, 8)), 9, LLAMA_3, offset=True)
    with pytest.raises(ConfigError, match=r"^audio ids: .*another layout"):
        codes_of_ids(ids.view(1, 8, 3).transpose(1, 2).flatten(1), 3, 9, LLAMA_3, offset=True)
