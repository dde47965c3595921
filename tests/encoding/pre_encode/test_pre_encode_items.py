"""Which samples make an item, which id it has, and who encodes it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.audio.resampler import resampled_span
from solfa.encoding.pre_encode.items import (
    Cut,
    Slot,
    consecutive_bounds,
    crop_bounds,
    drawn_fraction,
    items_of_rank,
    padding_mask,
    slot_of,
)

RATES = st.sampled_from([8000, 11025, 16000, 22050, 44100, 48000, 96000])


@given(st.integers(1, 60_000), RATES, RATES, st.integers(1000, 9000))
def test_consecutive_items_cover_a_recording_once_and_are_never_too_long(num_samples, source, rate, size):
    bounds = consecutive_bounds(num_samples, source, Cut(size, rate))
    assert [start for start, _ in bounds] == [0, *[stop for _, stop in bounds[:-1]]]
    assert bounds[-1][1] == num_samples
    spans = [resampled_span(start, stop, source, rate) for start, stop in bounds]
    assert [first for first, _ in spans] == [0, *[last for _, last in spans[:-1]]]
    lengths = [last - first for first, last in spans]
    assert max(lengths) <= size
    # All but the last are full, up to the samples that one source sample becomes.
    assert all(length > size - -(-rate // source) for length in lengths[:-1])


@given(st.integers(1, 60_000), RATES, RATES, st.integers(1000, 9000), st.floats(0, 1, exclude_max=True))
def test_a_crop_lies_within_the_recording_and_is_full_where_it_can_be(num_samples, source, rate, size, fraction):
    ((start, stop),) = crop_bounds(num_samples, source, Cut(size, rate), fraction)
    assert 0 <= start < stop <= num_samples
    first, last = resampled_span(start, stop, source, rate)
    total = resampled_span(0, num_samples, source, rate)[1]
    assert last - first <= size
    assert last - first > min(size, total) - 1 - -(-rate // source)


def test_crops_are_drawn_evenly_and_always_the_same():
    draws = [drawn_fraction(f"song{number}.wav") for number in range(2000)]
    assert draws == [drawn_fraction(f"song{number}.wav") for number in range(2000)]
    counts, _ = np.histogram(draws, 4, (0, 1))
    assert counts.min() > 400


def test_ids_have_three_six_and_four_digits():
    assert Slot(12, 345, 6).id == "0120003450006"
    assert slot_of(13, batch_size=4, world_size=2) == Slot(rank=1, batch=1, position=1)


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("num_items", [0, 1, 4, 5, 23])
def test_every_item_belongs_to_exactly_one_rank(num_items, world_size):
    dealt = [found for rank in range(world_size) for found in items_of_rank(num_items, 4, rank, world_size)]
    assert sorted(item for item, _ in dealt) == list(range(num_items))
    assert len({slot.id for _, slot in dealt}) == num_items
    assert all(slot == slot_of(item, 4, world_size) for item, slot in dealt)


@pytest.mark.parametrize(("num_samples", "valid"), [(1, 1), (40, 1), (41, 2), (400, 10), (399, 10)])
def test_the_mask_marks_every_frame_that_holds_a_sample(num_samples, valid):
    assert padding_mask(num_samples, 40, 10) == [1] * valid + [0] * (10 - valid)
