"""What was written is what is read: by index, id and slice, as views of the files."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_maker import SMALL, build, codes_spec, info_of, latents_spec, make_outcomes, planned, random_array, stored

from solfa.errors import ConfigError, StoreError
from solfa.store.array_dataset import append_arrays
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.schema import ArraySpec
from solfa.store.shard_reader import ShardReader
from solfa.store.shard_writer import Outcome
from solfa.store.verification import verify

SPECS = [
    codes_spec(1, "uint16", 256),
    codes_spec(9, "uint16", 65_536),
    codes_spec(4, "uint32", 65_537),
    codes_spec(2, "uint32", 2**32),
    latents_spec(1, "float16"),
    latents_spec(7, "float16"),
    latents_spec(8, "float32"),
]


def owner(array: np.ndarray[Any, Any]) -> Any:
    """Follow a view to what holds its memory."""
    found: Any = array
    while getattr(found, "base", None) is not None:
        found = found.base
    return found.obj if isinstance(found, memoryview) else found


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.dtype}x{spec.width}")
def test_arrays_come_back_exactly(tmp_path: Path, spec: ArraySpec) -> None:
    outcomes = make_outcomes(spec, [5, 0, 1, 300, 0, 17, 2], failed=[3])
    dataset = open_dataset(build(tmp_path / "d", outcomes, spec))
    kept = [outcome for outcome in outcomes if outcome.array is not None]
    assert [clip.id for clip in dataset] == [outcome.clip.id for outcome in kept]
    for clip, outcome in zip(dataset, kept, strict=True):
        assert outcome.array is not None
        assert clip.array.dtype == spec.numpy_dtype
        assert clip.array.shape == outcome.array.shape
        np.testing.assert_array_equal(clip.array, outcome.array)
    assert verify(tmp_path / "d").problems == []


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.lists(st.integers(0, 40), max_size=12),
    width=st.integers(1, 9),
    kind=st.sampled_from(["uint16", "uint32", "float16", "float32"]),
    clips_per_shard=st.integers(1, 5),
)
def test_any_lengths_widths_and_shards_come_back(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], width: int, kind: str, clips_per_shard: int
) -> None:
    spec = codes_spec(width, kind) if kind.startswith("uint") else latents_spec(width, kind)
    outcomes = make_outcomes(spec, lengths)
    dataset = open_dataset(build(tmp_path_factory.mktemp("d") / "d", outcomes, spec, clips_per_shard))
    assert dataset.num_frames.tolist() == lengths
    assert len(dataset) == len(lengths)
    assert all(np.array_equal(clip.array, outcome.array) for clip, outcome in zip(dataset, outcomes, strict=True))


def test_a_batch_without_a_single_frame_is_readable_and_has_the_same_bytes_each_time(tmp_path: Path) -> None:
    outcomes = make_outcomes(codes_spec(), [0, 0, 0])
    first, second = (build(tmp_path / name, outcomes) for name in "ab")
    assert [clip.array.shape for clip in open_dataset(first)] == [(0, 4)] * 3
    assert [path.name for path in (first / "meta").iterdir()] == [path.name for path in (second / "meta").iterdir()]


def test_many_record_batches_in_a_shard_are_all_found(tmp_path: Path) -> None:
    outcomes = make_outcomes(codes_spec(), [index % 5 for index in range(600)])
    dataset = open_dataset(build(tmp_path / "d", outcomes, clips_per_shard=1000))
    assert all(np.array_equal(clip.array, outcome.array) for clip, outcome in zip(dataset, outcomes, strict=True))


def test_metadata_captions_scales_and_source_come_back(tmp_path: Path) -> None:
    spec = codes_spec()
    metadata = {
        "title": "Ünïcödé ☕ \u202e日本語",
        "newline": "a\nb\r\n\x00\x1f",
        "lone surrogate": "\ud83d",
        "nested": {"list": [1, 2.5, None, True, {"": ""}]},
        "big": 2**70,
        "": "empty key",
        "quote": "\"'\\/",
    }
    clip = planned(
        "名前/\n%0A 1", caption="", metadata=metadata, start=3, stop=99, member="inner/x.wav", source_format="wav"
    )
    scales = np.array([0.25, 1e-8, 3.4e38], np.float32)
    plain = planned("plain")
    outcomes = [stored(clip, random_array(spec, 4, 0), scales=scales), stored(plain, random_array(spec, 1, 1))]
    dataset = open_dataset(build(tmp_path / "d", outcomes))
    found = dataset[0]
    assert found.id == "名前/\n%0A 1"
    assert found.metadata == metadata
    assert found.caption == ""
    assert found.num_samples == 4 * 640
    assert found.seconds == pytest.approx(4 * 640 / 32_000)
    assert found.num_frames == 4
    assert found.scales is not None and np.array_equal(found.scales, scales)
    expected = {"uri": clip.uri, "member": "inner/x.wav", "start": 3, "stop": 99, "format": "wav"}
    assert expected.items() <= found.source.items()
    assert (dataset[1].caption, dataset[1].metadata, dataset[1].scales) == (None, {}, None)
    assert verify(tmp_path / "d").problems == []


def test_failed_clips_are_listed_with_their_reasons_and_not_among_the_clips(small: Path) -> None:
    dataset = open_dataset(small)
    assert len(dataset) == 8
    assert "clip/004" not in dataset.ids()
    assert [(failed.id, failed.error, failed.uri) for failed in dataset.failures()] == [
        ("clip/004", "the file is empty", "clip/004.wav")
    ]
    assert dataset.num_failed == 1


def test_a_shard_in_which_everything_failed_is_readable(tmp_path: Path) -> None:
    outcomes = make_outcomes(codes_spec(), [1] * 5, failed=[0, 1, 2])
    dataset = open_dataset(build(tmp_path / "d", outcomes))
    assert dataset.ids() == ["clip/003", "clip/004"]
    assert dataset[0].id == "clip/003"
    assert verify(tmp_path / "d").problems == []


def test_arrays_are_read_only_views_of_the_memory_mapped_file(small: Path) -> None:
    dataset = open_dataset(small)
    arrays = [dataset[0].array, dataset[1].array, dataset.window(0, 1, 3), dataset[:2][1].array]
    assert all(isinstance(owner(array), pa.Buffer) for array in arrays)
    assert owner(arrays[0]) is owner(arrays[1])
    assert np.shares_memory(dataset[0].array, arrays[0])
    for array in arrays:
        assert not array.flags.writeable
        assert not array.flags.owndata
        assert array.flags.c_contiguous
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_indices_ids_and_slices_agree(small: Path) -> None:
    dataset = open_dataset(small)
    ids = dataset.ids()
    assert [dataset[index].id for index in range(len(dataset))] == ids
    assert [dataset[index].id for index in range(-len(dataset), 0)] == ids
    assert [dataset[clip_id].id for clip_id in ids] == ids
    assert dataset[np.int64(3)].id == ids[3]  # type: ignore[call-overload]
    for part in (slice(2, 5), slice(None, None, -1), slice(-3, None), slice(6, 2), slice(1, None, 3)):
        assert dataset[part].ids() == ids[part]
        assert [clip.id for clip in dataset[part]] == ids[part]
    assert dataset[2:][1:][0].id == ids[3]
    assert dataset.num_frames.tolist() == [5, 1, 0, 7, 2, 9, 4, 6]
    assert dataset[::-1].num_frames.tolist() == [6, 4, 9, 2, 7, 0, 1, 5]


@pytest.mark.parametrize("index", [8, -9, 1000])
def test_an_index_outside_says_which(small: Path, index: int) -> None:
    with pytest.raises(IndexError, match=rf"clip {index} .*8"):
        open_dataset(small)[index]


def test_an_unknown_id_is_a_key_error_and_not_contained(small: Path) -> None:
    dataset = open_dataset(small)
    with pytest.raises(KeyError, match=r"8 clips.*'nope'"):
        dataset["nope"]
    assert "clip/003" in dataset
    assert "nope" not in dataset
    assert "clip/003" not in dataset[:2]


def test_select_and_filter_keep_order_and_change_the_digest(small: Path) -> None:
    dataset = open_dataset(small)
    ids = dataset.ids()
    chosen = dataset.select([3, 0, -1, 3])
    assert chosen.ids() == [ids[3], ids[0], ids[7], ids[3]]
    assert chosen.select(np.array([2, 1])).ids() == [ids[7], ids[0]]
    long = dataset.filter(lambda clip: clip.num_frames > 4)
    assert long.ids() == ["clip/000", "clip/003", "clip/006", "clip/008"]
    assert len(dataset.select([])) == 0
    digests = {dataset.digest, chosen.digest, long.digest, dataset.select([0, 3]).digest}
    assert len(digests) == 4
    assert dataset.select([3, 0, -1, 3]).digest == chosen.digest


@pytest.mark.parametrize("indices", [[8], [0, -9]])
def test_select_refuses_indices_outside(small: Path, indices: list[int]) -> None:
    with pytest.raises(IndexError, match=r"indices .*8 clips"):
        open_dataset(small).select(indices)


def test_select_refuses_a_mask_instead_of_reading_it_as_zeros_and_ones(small: Path) -> None:
    with pytest.raises(TypeError, match=r"numpy\.flatnonzero"):
        open_dataset(small).select(np.ones(8, bool))


def test_a_pickled_dataset_reads_the_same_and_takes_no_data_along(small: Path) -> None:
    dataset = open_dataset(small)[1:6]
    before = [clip.array.copy() for clip in dataset]
    _ = dataset.num_frames, dataset["clip/001"]
    again: Dataset = pickle.loads(pickle.dumps(dataset))
    assert again.ids() == dataset.ids()
    assert again.digest == dataset.digest
    assert all(np.array_equal(clip.array, array) for clip, array in zip(again, before, strict=True))


def test_a_pickled_clip_takes_its_own_array_along_and_not_the_file(tmp_path: Path) -> None:
    outcomes = make_outcomes(codes_spec(), [2, 50_000])
    clip = open_dataset(build(tmp_path / "d", outcomes))[0]
    _ = clip.caption
    text = pickle.dumps(clip)
    assert len(text) < 20_000
    again = pickle.loads(text)
    assert (again.id, again.caption, again.array.tolist()) == (clip.id, clip.caption, clip.array.tolist())


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files through /proc")
def test_open_shards_hold_no_file_descriptors(tmp_path: Path) -> None:
    outcomes = make_outcomes(codes_spec(), [3] * 10)
    dataset = open_dataset(build(tmp_path / "d", outcomes, clips_per_shard=1))
    for index in [0, 9, 4, 0, 5, 9, 1]:
        array = outcomes[index].array
        assert array is not None and np.array_equal(dataset[index].array, array)
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path / "d") in line]
    opened = [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    assert len(mapped) == 5
    assert not [path for path in opened if str(tmp_path / "d") in path]


def test_a_pinned_manifest_does_not_see_what_was_appended_later(small: Path) -> None:
    before = open_dataset(small)
    more = make_outcomes(codes_spec(), [2, 2], prefix="more")
    append_arrays(small, info_of(codes_spec()), more, {})
    assert open_dataset(small, manifest=1).digest == before.digest
    assert open_dataset(small, manifest=1).ids() == before.ids()
    assert open_dataset(small).ids() == [*before.ids(), "more/000", "more/001"]
    with pytest.raises(StoreError, match=r"no manifest 3, .*\[1, 2\]"):
        open_dataset(small, manifest=3)


def test_an_unfinished_dataset_opens_only_when_asked(small: Path) -> None:
    (small / "manifest" / "000001.json").unlink()
    (small / "commit" / "00001.json").unlink()
    with pytest.raises(StoreError, match=r"2 of 3 shards.*partial=True"):
        open_dataset(small)
    kept = [outcome.clip.id for outcome in SMALL[:3] + SMALL[6:]]
    assert open_dataset(small, partial=True).ids() == kept


def test_an_empty_dataset_is_a_dataset(tmp_path: Path) -> None:
    dataset = open_dataset(build(tmp_path / "d", []))
    assert (len(dataset), list(dataset), dataset.num_frames.tolist()) == (0, [], [])
    assert verify(tmp_path / "d").problems == []


def test_a_manifest_of_another_dataset_is_refused(small: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    append_arrays(other, info_of(codes_spec(), codec="another"), SMALL, {}, 3)
    (other / "manifest" / "000001.json").replace(small / "manifest" / "000001.json")
    with pytest.raises(StoreError, match=r"manifest \d+ .*another dataset"):
        open_dataset(small)


def test_size_counts_data_and_meta(small: Path) -> None:
    files = [*(small / "data").iterdir(), *(small / "meta").iterdir()]
    assert open_dataset(small).num_bytes == sum(path.stat().st_size for path in files)


def test_repr_says_what_it_is(small: Path) -> None:
    dataset = open_dataset(small)
    assert repr(dataset).endswith("8 clips, codes [T, 4] uint16)")
    assert repr(dataset[0]) == "Clip('clip/000', uint16 [5, 4], 0.10 s)"


def test_outcomes_default_to_failed(tmp_path: Path) -> None:
    build(tmp_path / "d", [Outcome(planned("a"))])
    assert open_dataset(tmp_path / "d").failures()[0].error == "unknown"


def test_verify_once_checks_each_clip_when_it_is_first_read(small, monkeypatch):
    checked = []
    check = ShardReader.check
    monkeypatch.setattr(ShardReader, "check", lambda self, row, array: (checked.append(row), check(self, row, array)))
    assert [clip.id for clip in open_dataset(small)] and not checked
    dataset = open_dataset(small, verify="once")
    for _ in range(2):
        assert [clip.id for clip in dataset] == dataset.ids()
        assert dataset.window(0, 0, 1).shape[0] == 1
    assert len(checked) == len(dataset)
    copy = pickle.loads(pickle.dumps(dataset[:2]))
    assert [clip.id for clip in copy] == dataset.ids()[:2]
    assert len(checked) == len(dataset) + 2, "another process looks for itself"
    with pytest.raises(ConfigError, match=r"verify.*never.*once.*always"):
        open_dataset(small, verify="always")


def test_columns_are_what_the_clips_say_in_their_order(small: Path) -> None:
    dataset = open_dataset(small)
    for chosen in (dataset, dataset.select([5, 0, 3]), dataset.select([])):
        found = chosen.columns(["caption", "status", "id", "seconds"]).to_pylist()
        expected = [{"caption": c.caption, "status": "ok", "id": c.id, "seconds": c.seconds} for c in chosen]
        assert found == expected
    with pytest.raises(ConfigError, match="colour"):
        dataset.columns(["id", "colour"])
