import dataclasses
import pickle

import numpy as np
import pytest
import torch

from solfa.data.batching.collation import Batch
from solfa.data.batching.loader import make_loader
from solfa.data.batching.modes import Crop, Pack, Pad
from solfa.data.sources.clip_source import MemoryClip, MemoryClips
from solfa.data.stable_random import crop_start
from solfa.errors import StoreError
from tests.data.segments import segments_of


def first_batch(clips: MemoryClips, mode: Crop | Pad | Pack) -> Batch:
    return next(iter(make_loader(clips, mode)))


def two_clips(*dtypes: type) -> MemoryClips:
    return MemoryClips(
        [MemoryClip(f"{index}", np.arange(6, dtype=dtype).reshape(3, 2)) for index, dtype in enumerate(dtypes)]
    )


@pytest.mark.parametrize("mode", [Crop(num_frames=12, batch_size=5), Pad(batch_size=5)], ids=str)
def test_rows_hold_the_clips_frames_and_zeros_where_the_mask_is_false(clips: MemoryClips, mode: Crop | Pad) -> None:
    by_id = {clip.id: clip for clip in clips}  # type: ignore[attr-defined]
    seen = 0
    for batch in make_loader(clips, mode):
        assert batch.mask.sum() == batch.num_frames.sum() == batch.global_frames and len(batch) == batch.global_rows
        assert not batch.arrays[~batch.mask].any()
        for row, clip_id in enumerate(batch.ids):
            start, count = int(batch.starts[row]), int(batch.num_frames[row])
            expected = by_id[clip_id].array[start : start + count].astype(np.int64)
            assert torch.equal(batch.arrays[row, :count], torch.from_numpy(expected))
            assert batch.mask[row].tolist() == [True] * count + [False] * (batch.arrays.shape[1] - count)
            assert batch.captions[row] == by_id[clip_id].caption
            assert batch.metadata[row] == by_id[clip_id].metadata
            seen += 1
    assert seen == len(clips)


def test_crops_begin_where_the_clips_own_randomness_says_whatever_the_batches(clips: MemoryClips) -> None:
    slacks = {clip.id: max(0, len(clip.array) - 4) for clip in clips}  # type: ignore[attr-defined]
    loaders = [
        make_loader(clips, Crop(num_frames=4, batch_size=3), seed=5),
        make_loader(clips, Crop(num_frames=4, batch_size=7, shuffle=False), seed=5),
    ]
    for epoch in range(2):
        expected = {clip_id: crop_start(5, epoch, clip_id, slack) for clip_id, slack in slacks.items()}
        for loader in loaders:
            batches = list(loader)
            starts = {clip_id: start for batch in batches for clip_id, start, _ in segments_of(batch)}
            assert starts == expected


@pytest.mark.parametrize("num_frames", [1, 7, 50, 400])
def test_unpacking_gives_back_each_clip(clips: MemoryClips, num_frames: int) -> None:
    pieces: dict[str, dict[int, torch.Tensor]] = {}
    for batch in make_loader(clips, Pack(num_frames=num_frames, batch_size=3)):
        for segment in segments_of(batch):
            pieces.setdefault(segment.id, {})[segment.start] = segment.array
    for clip in clips:  # type: ignore[attr-defined]
        whole = torch.cat([array for _, array in sorted(pieces[clip.id].items())])
        assert torch.equal(whole, torch.from_numpy(clip.array.astype(np.int64)))


def test_segment_numbers_change_exactly_where_clips_meet(clips: MemoryClips) -> None:
    batch = first_batch(clips, Pack(num_frames=64, batch_size=4))
    assert batch.mask.all() and len(batch.ids) > 4
    for row in range(4):
        counts = batch.num_frames[batch.rows == row].tolist()
        expected = [number for number, count in enumerate(counts) for _ in range(count)]
        assert batch.segment_ids[row].tolist() == expected


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("stored", "wide"),
    [(np.uint16, torch.int64), (np.uint32, torch.int64), (np.float16, torch.float32), (np.float32, torch.float32)],
)
def test_stored_types_are_widened_without_changing_a_value(stored: type, wide: torch.dtype) -> None:
    largest = np.finfo(stored).max if np.dtype(stored).kind == "f" else np.iinfo(stored).max
    array = np.array([[0, 1], [largest, 2]], stored)
    array.setflags(write=False)
    batch = first_batch(MemoryClips([MemoryClip("a", array)]), Pad(batch_size=1))
    assert batch.arrays.dtype == wide
    assert batch.arrays.tolist() == [array.tolist()]


def test_arrays_that_are_neither_codes_nor_latents_are_refused() -> None:
    with pytest.raises(StoreError, match="complex64"):
        first_batch(two_clips(np.complex64), Pad(batch_size=1))


def test_a_batch_moves_and_pickles_whole(clips: MemoryClips) -> None:
    batch = first_batch(clips, Pack(num_frames=20, batch_size=2))
    for copy in (batch.to("cpu"), pickle.loads(pickle.dumps(batch))):
        for field in dataclasses.fields(Batch):
            left, right = getattr(batch, field.name), getattr(copy, field.name)
            assert torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right
    assert {tensor.device.type for tensor in vars(batch.to("meta")).values() if isinstance(tensor, torch.Tensor)} == {
        "meta"
    }


def test_a_rank_without_rows_reads_one_of_padding_in_the_form_of_the_others() -> None:
    clips = two_clips(np.uint16, np.uint16, np.uint16)
    mode = Crop(num_frames=2, batch_size=2)
    last = [list(make_loader(clips, mode, rank=rank, world_size=2, pad_ranks=True))[-1] for rank in (0, 1)]
    assert [batch.is_padding for batch in last] == [False, True]
    real, padding = last
    assert padding.arrays.shape == real.arrays.shape == (1, 2, 2) and padding.arrays.dtype == torch.int64
    assert not padding.arrays.any() and not padding.mask.any()
    assert padding.num_frames.tolist() == [0] and [len(segment.array) for segment in segments_of(padding)] == [0]
    assert (padding.ids, padding.captions, padding.metadata) == (real.ids, real.captions, real.metadata)
    assert (padding.global_rows, padding.global_frames) == (real.global_rows, real.global_frames) == (1, 2)
