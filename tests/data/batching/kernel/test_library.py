"""The compiled functions give what numpy and hashlib give, bit for bit."""

from pathlib import Path

import numpy as np
import pytest
import torch
from jaxtyping import Int64

from solfa.data.batching.kernel.library import BatchKernel, Segments, batch_kernel
from solfa.data.batching.loader import BatchDataset, GlobalBatchSampler, make_loader
from solfa.data.batching.modes import Crop, Pack, Pad
from solfa.data.sources.clip_source import ClipSource, SourceClip
from solfa.data.sources.mixture import Mixture, MixturePart
from solfa.data.stable_random import crop_prefix
from solfa.errors import StoreError
from solfa.store.array_dataset import append_arrays
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.schema import ArraySpec, DatasetInfo
from solfa.store.stored_group import MappedArrays
from tests.data.stored import Described, store
from tests.data.test_stable_random import crop_start
from tests.store.store_maker import make_outcomes

MODES = (Crop(num_frames=7, batch_size=5), Pad(batch_size=4), Pack(num_frames=9, batch_size=3))
SPECS = {"uint16": 60_000, "uint32": 2**32, "float16": None, "float32": None}


class OneByOne:
    """A source that gives its clips one by one, so that numpy makes batches of them."""

    def __init__(self, source: ClipSource) -> None:
        self._source, self.digest, self.num_frames = source, source.digest, source.num_frames

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int, /) -> SourceClip:
        return self._source[index]


@pytest.fixture(scope="module")
def kernel() -> BatchKernel:
    found = batch_kernel()
    if found is None:
        pytest.skip("no C compiler here")
    return found


@pytest.fixture(params=SPECS)
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    size = SPECS[request.param]
    values = {"kind": "codes" if size else "latents", "codebook_size": size, "dtype": request.param, "width": 3}
    spec = ArraySpec(**values, sample_rate=32_000, num_channels=1, hop_length=640)
    outcomes = make_outcomes(spec, [1, 20, 7, 6, 500, 8, 33, 7, 14, 2], failed=[2])
    append_arrays(tmp_path, DatasetInfo.of("none", spec, {}), outcomes, {}, clips_per_shard=3)
    return open_dataset(tmp_path)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.kind)
def test_batches_are_those_that_numpy_makes(kernel: BatchKernel, dataset: Dataset, mode: Crop | Pad | Pack) -> None:
    several = [dataset, dataset.select([8, 3, 3, 0]), Mixture([MixturePart(dataset), MixturePart(dataset[2:5])])]
    for source in several:
        assert source.group(np.array([0])).mapped_arrays() is not None
        fast, plain = make_loader(source, mode, seed=3), make_loader(OneByOne(source), mode, seed=3)
        for _ in range(2):
            for batch, expected in zip(fast, plain, strict=True):
                for name, tensor in expected._tensors().items():
                    found = getattr(batch, name)
                    assert found.dtype == tensor.dtype and torch.equal(found, tensor), name
                assert batch.told == expected.told


def test_every_half_becomes_the_float_that_it_is(kernel: BatchKernel) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(-1, 1)
    found = fill(kernel, halves, "float16", starts=[0], num_frames=[len(halves)], columns=[0], num_columns=len(halves))
    expected, is_nan = halves.astype(np.float32), np.isnan(halves)
    assert np.array_equal(np.isnan(found[0]), is_nan)
    assert np.array_equal(found[0].view(np.uint32)[~is_nan], expected.view(np.uint32)[~is_nan])  # also zero's sign


@pytest.mark.parametrize(
    ("starts", "num_frames", "columns"),
    [
        ([-1], [2], [0]),
        ([9], [2], [0]),
        ([2**62], [2**62], [0]),
        ([0], [-1], [0]),
        ([0], [5], [2]),
        ([0, 0], [3, 1], [0, 2]),
    ],
)
def test_what_does_not_fit_its_clip_or_its_place_is_refused(
    kernel: BatchKernel, starts: list[int], num_frames: list[int], columns: list[int]
) -> None:
    with pytest.raises(StoreError, match="which has 10; run `solfa verify`"):
        fill(kernel, np.ones((10, 2), np.uint16), "uint16", starts, num_frames, columns, num_columns=6)


def test_crops_begin_where_the_hash_of_the_id_says(kernel: BatchKernel, tmp_path: Path) -> None:
    """With ids of one to several blocks of the hash, of characters of one to four bytes, in groups of any size."""
    ids = ["a", "ä/ö.wav", "日本語 🎵", *("x" * length for length in range(95, 135)), "é" * 300, "z" * 1000]
    dataset = open_dataset(store(tmp_path, [Described(clip_id) for clip_id in ids]))
    rng = np.random.default_rng(0)
    for count in (1, 7, 8, 9, len(dataset)):
        chosen = rng.permutation(len(dataset))[:count]
        group, starts = dataset.group(chosen), rng.integers(0, 9, count)
        places = group.mapped_ids()
        assert places is not None
        for slacks in (rng.integers(0, 1000, count), np.full(count, 2**62), np.zeros(count, np.int64)):
            found = kernel.draw_starts(crop_prefix(-3, 12), places, starts, slacks)
            drawn = [
                crop_start(-3, 12, dataset[int(index)].id, slack)
                for index, slack in zip(chosen, slacks.tolist(), strict=True)
            ]
            assert found.tolist() == [start + more for start, more in zip(starts.tolist(), drawn, strict=True)]


def test_a_share_made_for_another_dataset_is_an_error(kernel: BatchKernel, tmp_path: Path) -> None:
    long = open_dataset(store(tmp_path / "long", [Described("a", 30), Described("b", 40)]))
    short = open_dataset(store(tmp_path / "short", [Described("a", 3), Described("b", 4)]))
    for share in GlobalBatchSampler(long, Pad(batch_size=2)):
        with pytest.raises(StoreError, match="which has 4"):
            BatchDataset(short)[share]


def fill(
    kernel: BatchKernel,
    array: np.ndarray,  # type: ignore[type-arg]
    dtype: str,
    starts: list[int],
    num_frames: list[int],
    columns: list[int],
    num_columns: int,
) -> np.ndarray:  # type: ignore[type-arg]
    """Fill one row from one clip."""
    count = len(starts)
    places: Int64[np.ndarray, "2 G"] = np.array([[array.ctypes.data] * count, [len(array)] * count])
    segments = Segments(*(torch.tensor(values) for values in (starts, num_frames, [0] * count, columns)))
    return kernel.fill(1, num_columns, segments, MappedArrays(places, array.shape[1], dtype))[0].numpy()
