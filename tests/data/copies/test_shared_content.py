"""Copies stay on one side of a split if that is asked for, and a run says if they do not."""

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.config import parse_config
from solfa.data.copies.shared_content import join_groups
from solfa.data.sources.dset import Dset, Source
from solfa.data.sources.hold_out import HoldOut
from solfa.data.sources.stage_source import leak_of, open_stage
from solfa.errors import ConfigError
from solfa.experiments.run.data import answer_leak
from tests.data.copies_maker import encode_collection, write_collection


@pytest.fixture(scope="module")
def takes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encode_collection(write_collection(tmp_path_factory.mktemp("shared") / "audio"))


def splitting(takes: Path, **values: object) -> Dset:
    """Hold out something that separates the copy from what it is a copy of, unless content decides."""
    for seed in range(100):
        hold_out = HoldOut(clips=1, seed=seed)
        dset = Dset(train=(Source(path=str(takes)),), hold_out=hold_out)
        held = {open_stage(dset, "valid")[index].id for index in range(len(open_stage(dset, "valid")))}
        if len(held & {"copy.wav", "take1.wav"}) == 1:
            return parse_config(
                Dset, {"train": str(takes), "hold_out": {"clips": 1, "seed": seed, **values}}, "settings"
            )
    raise AssertionError("no seed separates them")


def sides(dset: Dset) -> list[set[str]]:
    opened = [open_stage(dset, stage) for stage in ("train", "valid")]
    return [{source[index].id for index in range(len(source))} for source in opened]


def test_a_leak_is_counted_and_content_closes_it(takes: Path, caplog: pytest.LogCaptureFixture) -> None:
    leaking = splitting(takes)
    leak = leak_of(leaking)
    assert leak is not None
    assert (leak.num_copies, leak.num_clips, leak.share) == (1, 1, 1.0)
    assert leak.first is not None and set(leak.first[:2]) == {"copy.wav", "take1.wav"}
    with caplog.at_level(logging.WARNING):
        answer_leak(leaking)
    assert "hold_out.by=content" in caplog.text and "100" in caplog.text
    with pytest.raises(ConfigError, match="on_leak"):
        answer_leak(leaking.model_copy(update={"on_leak": "refuse"}))
    caplog.clear()
    answer_leak(leaking.model_copy(update={"on_leak": "ignore"}))
    closed = splitting(takes, by="content")
    train, valid = sides(closed)
    assert not train & valid and len(train | valid) == 8
    assert {"copy.wav", "take1.wav"} <= train or {"copy.wav", "take1.wav"} <= valid
    found = leak_of(closed)
    assert found is not None and found.num_copies == 0
    answer_leak(closed.model_copy(update={"on_leak": "refuse"}))
    assert not caplog.text


def test_other_data_to_validate_on_is_compared_too(takes: Path) -> None:
    where = {"id": {"glob": "take*"}}
    dset = parse_config(
        Dset,
        {"train": {"path": str(takes), "where": where}, "valid": {"path": str(takes), "where": {"id": "copy.wav"}}},
        "settings",
    )
    leak = leak_of(dset)
    assert leak is not None and leak.first is not None
    assert (leak.num_copies, leak.num_clips, leak.first[1]) == (1, 1, "take1.wav")


def test_without_fingerprints_content_is_refused_and_nothing_is_claimed(tmp_path: Path) -> None:
    made = encode_collection(write_collection(tmp_path / "audio"), fingerprints=False)
    dset = parse_config(Dset, {"train": str(made), "hold_out": {"clips": 1}}, "settings")
    assert leak_of(dset) is None
    answer_leak(dset)
    with pytest.raises(ConfigError, match="solfa fingerprint"):
        answer_leak(dset.model_copy(update={"on_leak": "refuse"}))
    by_content = parse_config(Dset, {"train": str(made), "hold_out": {"clips": 1, "by": "content"}}, "settings")
    with pytest.raises(ConfigError, match="solfa fingerprint"):
        open_stage(by_content, "train")


def test_settings_of_earlier_runs_are_written_as_they_were() -> None:
    dset = Dset(train=(Source(path="music.solfa"),), hold_out=HoldOut(clips=1))
    written = dset.model_dump(mode="json")
    assert "on_leak" not in written and "by" not in written["hold_out"]
    changed = Dset(train=dset.train, hold_out=HoldOut(clips=1, by="content"), on_leak="refuse")
    assert parse_config(Dset, changed.model_dump(mode="json"), "settings") == changed


@given(st.sets(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from("abcdefgh"))))
def test_groups_are_what_links_connect(links: set[tuple[str, str]]) -> None:
    groups = join_groups(list("abcdefgh"), links)
    for name in "abcdefgh":
        reached = {name}
        while more := {end for link in links if reached & set(link) for end in link} - reached:
            reached |= more
        assert groups[name] == min(reached)
