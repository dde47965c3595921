"""Patterns against their definitions, one element at a time, and against MusicGen's own."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from solfa.errors import ConfigError
from solfa.ops.patterns import (
    CoarseFirst,
    Delay,
    Flat,
    Parallel,
    Pattern,
    frames_within,
    lay_out,
    lay_out_mask,
    steps_of,
    take_back,
)

SPECIAL = 99


def parallel_slowly(k: int, t: int, num_codebooks: int, num_frames: int) -> int:
    return t


def delay_slowly(k: int, t: int, num_codebooks: int, num_frames: int) -> int:
    return t + k


def flat_slowly(k: int, t: int, num_codebooks: int, num_frames: int) -> int:
    return t * num_codebooks + k


def coarse_first_slowly(k: int, t: int, num_codebooks: int, num_frames: int) -> int:
    return t if k == 0 else num_frames + t


PATTERNS: list[tuple[Pattern, Callable[[int, int, int, int], int]]] = [
    (Parallel(), parallel_slowly),
    (Delay(), delay_slowly),
    (Flat(), flat_slowly),
    (CoarseFirst(), coarse_first_slowly),
]
each_pattern = pytest.mark.parametrize(
    ("pattern", "step_slowly"), PATTERNS, ids=lambda value: getattr(value, "kind", "")
)
sizes = given(num_codebooks=st.integers(1, 5), num_frames=st.integers(1, 9))


def lay_out_slowly(codes: Tensor, step_slowly: Callable[[int, int, int, int], int]) -> Tensor:
    """Place one code after the other, in a sequence that is exactly as long as needed."""
    batch, num_codebooks, num_frames = codes.shape
    step = {
        (k, t): step_slowly(k, t, num_codebooks, num_frames) for k in range(num_codebooks) for t in range(num_frames)
    }
    tokens = torch.full((batch, num_codebooks, max(step.values()) + 1), SPECIAL)
    for (k, t), s in step.items():
        for b in range(batch):
            tokens[b, k, s] = codes[b, k, t]
    return tokens


@each_pattern
@settings(max_examples=25, deadline=None)
@sizes
def test_each_code_stands_where_the_definition_says(
    pattern: Pattern, step_slowly: Callable[[int, int, int, int], int], num_codebooks: int, num_frames: int
) -> None:
    codes = torch.randint(0, 50, (2, num_codebooks, num_frames))
    layout = pattern.layout(num_codebooks, num_frames)
    tokens = lay_out(codes, layout, SPECIAL)
    assert torch.equal(tokens, lay_out_slowly(codes, step_slowly))
    assert torch.equal(take_back(tokens, layout, num_frames), codes)


@each_pattern
@settings(max_examples=25, deadline=None)
@sizes
def test_each_frame_of_each_codebook_stands_exactly_once(
    pattern: Pattern, step_slowly: object, num_codebooks: int, num_frames: int
) -> None:
    layout = pattern.layout(num_codebooks, num_frames)
    for row in layout:
        assert sorted(row[row >= 0].tolist()) == list(range(num_frames))
    assert (layout >= 0).any(0).all(), "no step is empty"


@given(delays=st.lists(st.integers(0, 4), min_size=1, max_size=5), num_frames=st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_any_delays_shift_their_codebooks_and_are_taken_back(delays: list[int], num_frames: int) -> None:
    delays[0] = 0
    codes = torch.randint(0, 50, (2, len(delays), num_frames))
    layout = Delay(delays=tuple(delays)).layout(len(delays), num_frames)
    tokens = lay_out(codes, layout, SPECIAL)
    assert torch.equal(tokens, lay_out_slowly(codes, lambda k, t, *_: t + delays[k]))
    assert torch.equal(take_back(tokens, layout, num_frames), codes)


@each_pattern
def test_the_first_frames_can_be_taken_back_alone(pattern: Pattern, step_slowly: object) -> None:
    codes = torch.randint(0, 50, (2, 3, 7))
    layout = pattern.layout(3, 7)
    assert torch.equal(take_back(lay_out(codes, layout, SPECIAL), layout, 4), codes[..., :4])


@each_pattern
@settings(max_examples=25, deadline=None)
@sizes
def test_each_frame_is_found_at_the_step_where_it_stands(
    pattern: Pattern, step_slowly: Callable[[int, int, int, int], int], num_codebooks: int, num_frames: int
) -> None:
    layout = pattern.layout(num_codebooks, num_frames)
    for wanted in {1, num_frames}:
        steps = steps_of(layout, wanted)
        assert steps.shape == (num_codebooks, wanted)
        for k, t in product(range(num_codebooks), range(wanted)):
            assert steps[k, t] == step_slowly(k, t, num_codebooks, num_frames) and layout[k, steps[k, t]] == t


def test_flat_lets_each_code_see_all_earlier_frames_and_the_coarser_codebooks_of_its_own() -> None:
    layout = Flat().layout(3, 4)
    order = [(int(layout[k, s]), k) for s in range(layout.shape[1]) for k in range(3) if layout[k, s] >= 0]
    assert order == sorted(order) and len(order) == 12
    assert (layout >= 0).sum(0).tolist() == [1] * 12


def test_delay_is_the_pattern_of_musicgen() -> None:
    from transformers import MusicgenDecoderConfig, MusicgenForCausalLM

    config = MusicgenDecoderConfig(
        vocab_size=16, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, ffn_dim=8, pad_token_id=16
    )
    decoder = MusicgenForCausalLM(config)
    codes = torch.randint(0, 16, (2, 4, 6))
    prompt = torch.cat([torch.full((2, 4, 1), 16), codes], dim=2)
    _, theirs = decoder.build_delay_pattern_mask(prompt.reshape(8, -1), pad_token_id=16, max_length=6 + 4)
    ours = lay_out(codes, Delay().layout(4, 6), special=16)
    start = torch.full((2, 4, 1), 16)
    assert torch.equal(theirs.view(2, 4, -1), torch.cat([start, ours], dim=2))


@each_pattern
def test_a_mask_marks_the_codes_of_real_frames(pattern: Pattern, step_slowly: object) -> None:
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])
    layout = pattern.layout(3, 5)
    laid = lay_out_mask(mask, layout)
    for b, k, s in product(range(2), range(3), range(layout.shape[1])):
        frame = int(layout[k, s])
        assert bool(laid[b, k, s]) == (frame >= 0 and bool(mask[b, frame]))


def test_the_kind_names_the_pattern() -> None:
    adapter: TypeAdapter[Pattern] = TypeAdapter(Pattern)
    for pattern, _ in PATTERNS:
        assert adapter.validate_python({"kind": pattern.kind}) == pattern
    with pytest.raises(ValidationError, match=r"parallel.*delay.*flat.*coarse_first"):
        adapter.validate_python({"kind": "unrolled"})


def test_delays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"4 codebooks, found 2 \[0, 1\]"):
        Delay(delays=(0, 1)).layout(4, 3)
    for delays in ((), (1, 2), (0, -1)):
        with pytest.raises(ValidationError, match=r"delays .*smallest is 0"):
            Delay(delays=delays)


@pytest.mark.parametrize("pattern", [Parallel(), Delay(), Delay(delays=(2, 0, 5)), Flat(), CoarseFirst()], ids=str)
@pytest.mark.parametrize("num_steps", [1, 2, 3, 6, 7, 24, 25])
def test_frames_within_a_limit_are_the_most_that_fit(pattern, num_steps: int) -> None:
    lengths = [pattern.layout(3, num_frames).shape[1] for num_frames in range(1, 30)]
    assert frames_within(pattern, 3, num_steps) == sum(length <= num_steps for length in lengths)
