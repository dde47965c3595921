import dataclasses
import pickle
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from solfa.data.batching.collation import Batch
from solfa.data.batching.loader import make_loader
from solfa.data.batching.modes import Crop, Pack, Pad
from solfa.data.sources.clip_source import ClipSource, MemoryClip, MemoryClips
from solfa.data.sources.mixture import Mixture, MixturePart
from solfa.data.table.clip_table import ClipTable
from solfa.data.table.joined_clips import JoinedClips, JoinedRows
from solfa.errors import StoreError
from solfa.store.dataset import open_dataset
from tests.data.segments import segments_of
from tests.data.stored import Described, store
from tests.data.test_stable_random import crop_start


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


def written_out(source: ClipSource, batch: Batch) -> tuple[list[Any], ...]:
    """The slow definition of a batch: one frame and one clip at a time, from where the batch says they are."""
    arrays = torch.zeros_like(batch.arrays)
    segment_ids = torch.full(batch.arrays.shape[:2], -1)
    by_id = {source[index].id: source[index] for index in range(len(source))}
    numbers: Counter[int] = Counter()
    places = (batch.rows, batch.columns, batch.num_frames, batch.starts)
    for clip_id, row, column, count, start in zip(batch.ids, *(place.tolist() for place in places), strict=True):
        for frame in range(count):
            arrays[row, column + frame] = torch.tensor(by_id[clip_id].array[start + frame].tolist())
            segment_ids[row, column + frame] = numbers[row]
        numbers[row] += 1
    clips = [by_id[clip_id] for clip_id in batch.ids]
    told = [(clip.caption, clip.metadata, len(clip.array)) for clip in clips]
    return arrays.tolist(), segment_ids.tolist(), told


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[ClipSource]:
    """Sources that find clips together, each in its own way."""
    folder = tmp_path_factory.mktemp("sources")
    described = [
        Described(f"{index}.wav", 3 + 5 * (index % 4), "a bell" if index % 3 else None, {"index": index})
        for index in range(7)
    ]
    dataset = open_dataset(store(folder / "one.solfa", described))  # three shards
    checked = open_dataset(store(folder / "two.solfa", described[:3], seed=1), verify="once")
    texts = pa.chunked_array([['{"caption": "from a table"}', '{"bpm": 90}']])
    joined = JoinedClips(dataset, JoinedRows(ClipTable(path="t.csv", key="k"), texts, np.arange(7) % 3 - 1))
    mixed = Mixture([MixturePart(dataset.select([5, 0, 3])), MixturePart(checked), MixturePart(joined)])
    return [dataset, dataset.select(np.arange(6, -1, -2)), joined, mixed]


@pytest.mark.parametrize(
    "mode", [Crop(num_frames=7, batch_size=6), Pad(batch_size=5), Pack(num_frames=11, batch_size=4)], ids=str
)
def test_clips_read_together_are_what_each_of_them_is_alone(mode: Crop | Pad | Pack, sources: list[ClipSource]) -> None:
    for source in sources:
        seen: list[str] = []
        for batch in make_loader(source, mode):
            arrays, segment_ids, told = written_out(source, batch)
            assert batch.arrays.tolist() == arrays and batch.segment_ids.tolist() == segment_ids
            found = zip(batch.captions, batch.metadata, batch.clip_frames.tolist(), strict=True)
            assert list(found) == told
            seen += batch.ids
        assert set(seen) == {source[index].id for index in range(len(source))}


def test_what_is_known_about_clips_is_read_when_somebody_asks_and_before_a_batch_is_pickled(clips: MemoryClips) -> None:
    batch = first_batch(clips, Pad(batch_size=3))
    assert not {"ids", "captions", "metadata"} & vars(batch.told).keys()
    copy = pickle.loads(pickle.dumps(batch))
    assert vars(copy.told) == {"ids": batch.ids, "captions": batch.captions, "metadata": batch.metadata}
