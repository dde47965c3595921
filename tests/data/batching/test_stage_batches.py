"""Sizes and exceptions of the stages, and the loaders they make."""

from typing import Any

import pytest

from solfa.config import parse_config
from solfa.data.batching.modes import Crop, Pack, Pad
from solfa.data.batching.stage_batches import Batching, make_stage_loader, segment_frames
from solfa.data.sources.dset import Source, Stage
from solfa.data.sources.stage_source import OpenedSource, open_sources
from solfa.errors import ConfigError
from tests.data.stored import numbered, store


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> OpenedSource:
    """Ten clips of 3 s at ten frames a second."""
    root = store(tmp_path_factory.mktemp("stages") / "d.solfa", numbered(10, num_frames=30))
    return open_sources([Source(path=str(root))])


def batching(**values: Any) -> Batching:
    return parse_config(Batching, {"batch_size": 4, "segment_seconds": 1.26, **values}, "dataset")


def test_seconds_become_the_nearest_number_of_frames_and_at_least_one() -> None:
    assert [segment_frames(seconds, 50.0) for seconds in (10.0, 0.029, 0.031, 0.001)] == [500, 1, 2, 1]


def test_training_is_shuffled_and_drops_the_tail_and_the_other_stages_see_every_clip_in_order(
    source: OpenedSource,
) -> None:
    config = batching()
    assert config.rows("train", source) == Crop(num_frames=13, batch_size=4, drop_last=True)
    for stage in ("valid", "evaluate", "generate"):
        mode = config.rows(stage, source)
        assert mode == Crop(num_frames=13, batch_size=4, shuffle=False, random_start=False)
        loader = make_stage_loader(source, config, stage, seed=3)
        assert [clip_id for batch in loader for clip_id in batch.ids] == source.values("id")
    trained = list(make_stage_loader(source, config, "train"))
    assert [len(batch) for batch in trained] == [4, 4] and any((batch.starts > 0).any() for batch in trained)


def test_a_training_set_smaller_than_a_batch_is_one_small_batch(source: OpenedSource) -> None:
    for mode in ({"kind": "crop"}, {"kind": "pack"}):
        config = batching(batch_size=64, mode=mode)
        assert [len(batch) for batch in make_stage_loader(source, config, "train")] == [
            10 if mode["kind"] == "crop" else 24
        ]
    with pytest.raises(ConfigError, match=r"drop_last .*\b64\b"):
        make_stage_loader(source, batching(batch_size=64, train={"drop_last": True}), "train")


def test_exceptions_of_a_stage_count_for_that_stage_only(source: OpenedSource) -> None:
    config = batching(valid={"batch_size": 2, "segment_seconds": 2, "shuffle": True}, train={"random_start": False})
    assert config.rows("valid", source) == Crop(num_frames=20, batch_size=2)
    assert config.rows("evaluate", source).batch_size == 4
    train = config.rows("train", source)
    assert isinstance(train, Crop) and train.shuffle and not train.random_start


def test_pad_and_pack_are_chosen_by_kind(source: OpenedSource) -> None:
    pad = batching(segment_seconds=None, mode={"kind": "pad", "window_batches": 7})
    assert pad.rows("train", source) == Pad(batch_size=4, window_batches=7, drop_last=True)
    pack = batching(mode={"kind": "pack"})
    assert pack.rows("valid", source) == Pack(num_frames=13, batch_size=4, shuffle=False)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"segment_seconds": None}, "segment_seconds: missing.* mode crop"),
        ({"segment_seconds": None, "mode": {"kind": "pack"}}, "segment_seconds: missing.* mode pack"),
        ({"mode": {"kind": "pad"}}, "segment_seconds: .*mode pad.*null"),
        ({"mode": {"kind": "pack"}, "train": {"random_start": True}}, "random_start: .*mode pack.*null"),
    ],
)
def test_settings_that_are_missing_or_would_be_ignored_are_refused(
    source: OpenedSource, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        batching(**values).rows("train", source)


def test_typos_and_impossible_sizes_are_named() -> None:
    with pytest.raises(ConfigError, match=r"valid\.batchsize: .*did you mean 'batch_size'"):
        batching(valid={"batchsize": 3})
    with pytest.raises(ConfigError, match=r"batch_size: .*greater than 0"):
        batching(batch_size=0)


def test_a_number_of_clips_to_train_on_is_refused_with_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"train\.num_samples: .*updates_per_epoch.*dset\.train\.where"):
        batching(train={"num_samples": 1000000})
    assert batching(valid={"num_samples": 3}).valid.num_samples == 3


def test_ranks_and_workers_see_the_same_global_batches(source: OpenedSource) -> None:
    alone = make_stage_loader(source, batching(), "train", seed=5)
    config = batching(num_workers=1)
    ranks = [make_stage_loader(source, config, "train", seed=5, rank=rank, world_size=2) for rank in (0, 1)]
    for _ in range(2):  # the second epoch through workers that persist
        together = [left.ids + right.ids for left, right in zip(*ranks, strict=True)]
        assert together == [batch.ids for batch in alone]
    assert ranks[0].epoch == ranks[1].epoch == 2


@pytest.mark.parametrize("stage", ["valid", "evaluate", "generate"])
def test_what_is_only_judged_comes_once_to_some_rank_and_nothing_comes_to_no_rank(
    source: OpenedSource, stage: Stage
) -> None:
    for batch_size, world_size in [(2, 2), (3, 3), (4, 3), (len(source), len(source)), (99, len(source) + 1)]:
        loaders = [
            make_stage_loader(source, batching(batch_size=batch_size), stage, rank=rank, world_size=world_size)
            for rank in range(world_size)
        ]
        steps = list(zip(*loaders, strict=True))
        assert all(len(batch) for step in steps for batch in step)
        ids = [clip_id for step in steps for batch in step if not batch.is_padding for clip_id in batch.ids]
        assert ids == [source[index].id for index in range(len(source))]


def test_training_with_fewer_rows_than_ranks_is_refused(source: OpenedSource) -> None:
    with pytest.raises(ConfigError, match=r"rows \(10\).* ranks \(11\).*drop_last"):
        make_stage_loader(source, batching(batch_size=99), "train", rank=0, world_size=len(source) + 1)
    keeping = batching(batch_size=len(source) - 1, train={"drop_last": False})
    with pytest.raises(ConfigError, match=r"rows \(1\).* ranks \(2\).*drop_last.*batch_size"):
        make_stage_loader(source, keeping, "train", rank=1, world_size=2)
