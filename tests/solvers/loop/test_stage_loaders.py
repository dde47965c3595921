"""Training goes on over the epochs without an end, everything else sees the same batches every time."""

import logging
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from solfa.data.batching.loader import Loader, make_loader
from solfa.data.batching.modes import Crop
from solfa.data.batching.stage_batches import Batching, StageBatching
from solfa.data.sources.dset import Dset
from solfa.errors import ConfigError
from solfa.solvers.loop.stage_loaders import data_facts, endless, from_the_start, go_to, open_stages, position_of
from tests.data.stored import numbered, store
from tests.solvers.toy import noisy_clips


def loader(shuffle: bool = True, num_clips: int = 7) -> Loader:
    return make_loader(noisy_clips(num_clips), Crop(num_frames=4, batch_size=2, shuffle=shuffle), seed=3)


def seen(batch: Any) -> tuple[Any, ...]:
    return batch.epoch, batch.step, batch.ids, batch.starts.tolist()


class Closing:
    """A loader without a position, which knows whether somebody closed its iterator."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.closed = 0

    def __iter__(self) -> Iterator[int]:
        try:
            yield from range(self.count)
        finally:
            self.closed += 1


def test_an_endless_loader_goes_on_over_the_epochs() -> None:
    with endless(loader()) as batches:
        found = [seen(batch) for batch in islice(batches, 13)]
    assert [epoch for epoch, *_ in found] == [0] * 4 + [1] * 4 + [2] * 4 + [3]
    for epoch in range(3):
        clips = [clip for number, _, ids, _ in found if number == epoch for clip in ids]
        assert sorted(clips) == sorted(f"clip{index}" for index in range(7)), "each clip once an epoch"
    assert found[0][2:] != found[4][2:], "epochs differ"


def test_an_endless_loader_goes_on_where_it_was_left() -> None:
    with endless(loader()) as batches:
        expected = [seen(batch) for batch in islice(batches, 11)]
    again, found = loader(), []
    for count in (3, 6, 2):
        with endless(again) as batches:
            found += [seen(batch) for batch in islice(batches, count)]
    assert found == expected


def test_leaving_an_endless_loader_closes_what_reads_ahead() -> None:
    source = Closing(3)
    with pytest.raises(KeyError), endless(source) as batches:
        assert list(islice(batches, 4)) == [0, 1, 2, 0]
        assert source.closed == 1
        raise KeyError
    assert source.closed == 2


def test_an_empty_loader_is_refused_instead_of_tried_for_ever() -> None:
    with pytest.raises(ConfigError, match=r"train loader .*add clips"), endless([]) as batches:
        next(batches)


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_pass_from_the_start_has_the_same_batches_also_after_leaving_early(shuffle: bool) -> None:
    source = loader(shuffle)
    with from_the_start(source) as batches:
        first = [seen(batch) for batch in batches]
    assert len(first) == 4
    with from_the_start(source) as batches:
        assert [seen(batch) for batch in islice(batches, 2)] == first[:2]
    with pytest.raises(KeyError), from_the_start(source) as batches:
        next(batches)
        raise KeyError
    assert len(source) == 4
    with from_the_start(source) as batches:
        assert [seen(batch) for batch in batches] == first


def test_a_loader_without_a_position_is_closed_and_iterated_anew() -> None:
    source = Closing(3)
    with from_the_start(source) as batches:
        assert next(batches) == 0
    assert source.closed == 1
    with from_the_start(source) as batches:
        assert list(batches) == [0, 1, 2]


def test_a_position_is_taken_up_by_another_loader() -> None:
    left, right = loader(), loader()
    list(islice(left, 3))
    go_to(right, position_of(left))
    assert [seen(batch) for batch in right] == [seen(batch) for batch in left] != []


@pytest.mark.parametrize(("target", "position"), [(loader(), None), ([1, 2], {"step": 3})])
def test_a_lost_position_is_told(target: Any, position: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        go_to(target, position)
    assert "starts over" in caplog.text
    assert position_of([1, 2]) is None


def test_stages_are_opened_with_their_data_and_its_facts(tmp_path: Path) -> None:
    paths = {name: str(store(tmp_path / name, numbered(count))) for name, count in (("train", 5), ("valid", 2))}
    sources = open_stages(Dset.model_validate(paths), Batching(batch_size=1))
    assert {stage: len(source) for stage, source in sources.items()} == {
        "train": 5, "valid": 2, "evaluate": 2, "generate": 2,
    }  # fmt: skip
    facts = data_facts(sources)
    assert (facts["codec"], facts["array"]["width"], facts["array"]["codebook_size"]) == ("none", 2, 64)
    assert facts["fingerprint"] == sources["train"].fingerprint
    torch.save(facts, tmp_path / "facts.pt")
    assert torch.load(tmp_path / "facts.pt", weights_only=True) == facts


def test_a_stage_is_limited_to_some_clips_and_the_others_are_not(tmp_path: Path) -> None:
    paths = {name: str(store(tmp_path / name, numbered(count))) for name, count in (("train", 5), ("valid", 4))}
    batching = Batching(batch_size=1, valid=StageBatching(num_samples=3), generate=StageBatching(num_samples=9))
    sources = open_stages(Dset.model_validate(paths), batching)
    assert [len(sources[stage]) for stage in ("train", "valid", "evaluate", "generate")] == [5, 3, 4, 4]


def test_stages_of_different_codecs_are_refused_by_name(tmp_path: Path) -> None:
    paths = {
        "train": str(store(tmp_path / "a", numbered(3))),
        "valid": str(store(tmp_path / "b", numbered(3))),
        "generate": str(store(tmp_path / "c", numbered(3), codebook_size=128)),
    }
    with pytest.raises(ConfigError, match=r"^dset\.generate: .*128.* same codec"):
        open_stages(Dset.model_validate(paths), Batching(batch_size=1))
