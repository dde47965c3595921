"""From sources to clips: selections, mixtures, sides, and what must agree."""

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest

from solfa.config import parse_config
from solfa.data.batching.loader import make_loader
from solfa.data.batching.modes import Crop
from solfa.data.sources.dset import Dset, Source
from solfa.data.sources.hold_out import HoldOut, recording_of
from solfa.data.sources.stage_source import open_sources, open_stage
from solfa.errors import ConfigError, StoreError
from solfa.store.dataset import open_dataset
from tests.data.stored import Described, numbered, store

TAGGED = [Described(f"t{i}.wav", 5 + i, f"take {i}", {"even": i % 2 == 0, "weight": i}) for i in range(8)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("opening")
    store(folder / "plain.solfa", numbered(12))
    store(folder / "tagged.solfa", TAGGED, seed=1)
    segments = [Described(f"song{r}.wav@{start:09.3f}") for r in range(9) for start in range(4)]
    store(folder / "cut.solfa", segments)
    return folder


def sources(place: Path, *values: dict[str, Any]) -> list[Source]:
    return [
        parse_config(Source, {**value, "path": str(place / f"{value['path']}.solfa")}, "source") for value in values
    ]


def ids(opened: Any) -> list[str]:
    return [opened[index].id for index in range(len(opened))]


def test_one_dataset_is_opened_as_it_is(place: Path) -> None:
    opened = open_sources(sources(place, {"path": "plain"}))
    dataset = open_dataset(place / "plain.solfa")
    assert (opened.digest, opened.array, opened.codec) == (dataset.digest, dataset.info.array, "none")
    assert opened.fingerprint == dataset.info.fingerprint
    assert ids(opened) == dataset.ids() and opened.num_frames.tolist() == [10] * 12


def test_where_selects_and_what_keeps_everything_changes_nothing(place: Path) -> None:
    dataset = open_dataset(place / "tagged.solfa")
    even = open_sources(sources(place, {"path": "tagged", "where": {"even": True}}))
    assert ids(even) == ["t0.wav", "t2.wav", "t4.wav", "t6.wav"]
    assert even.num_frames.tolist() == [5, 7, 9, 11] and even.digest != dataset.digest
    everything = open_sources(sources(place, {"path": "tagged", "where": {"seconds": {"min": 0}}}))
    assert everything.digest == dataset.digest


def test_the_clips_of_several_datasets_stand_in_order_and_values_follow_them(place: Path) -> None:
    opened = open_sources(sources(place, {"path": "plain"}, {"path": "tagged", "where": {"even": False}}))
    assert ids(opened)[11:] == ["0:clip011.wav", "1:t1.wav", "1:t3.wav", "1:t5.wav", "1:t7.wav"]
    assert opened.values("weight") == [None] * 12 + [1, 3, 5, 7]
    assert opened.values("caption") == [None] * 12 + ["take 1", "take 3", "take 5", "take 7"]
    with pytest.raises(ConfigError, match=r"'colour'.* id, caption"):
        opened.values("colour")


def test_a_weight_column_weighs_clips_and_missing_values_count_as_one(place: Path) -> None:
    opened = open_sources(
        sources(place, {"path": "tagged", "weight_column": "weight", "where": {"weight": {"max": 2}}})
    )
    assert opened.weights is not None
    assert (opened.weights.clips / opened.weights.clips[1]).tolist() == [0, 1, 2]
    found = [clip_id for batch in make_loader(opened, Crop(num_frames=4, batch_size=3)) for clip_id in batch.ids]
    assert sorted(found) == ["t1.wav", "t2.wav", "t2.wav"]
    unweighted = open_sources(sources(place, {"path": "tagged", "weight_column": "weight"}), weighted=False)
    assert unweighted.weights is None


def test_a_weight_that_is_no_number_names_the_clip(tmp_path: Path) -> None:
    clips = [
        Described("a.wav", metadata={"weight": 1}),
        Described("b.wav"),
        Described("c.wav", metadata={"weight": "x"}),
    ]
    root = store(tmp_path / "d.solfa", clips)
    with pytest.raises(ConfigError, match=r"weight_column 'weight' .*'c\.wav': expected a number .* found 'x'"):
        open_sources([Source(path=str(root), weight_column="weight")])
    fine = open_sources([Source(path=str(root), weight_column="weight", where={"id": ("a.wav", "b.wav")})])
    assert fine.weights is not None and fine.weights.clips.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("field", "value"), [("width", 3), ("codebook_size", 128), ("sample_rate", 200), ("hop_length", 20)]
)
def test_arrays_that_differ_are_refused_with_both_names(place: Path, tmp_path: Path, field: str, value: int) -> None:
    other = store(tmp_path / "other.solfa", numbered(3), **{field: value})
    with pytest.raises(ConfigError, match=rf"other\.solfa: {field} is {value}\b.*plain\.solfa"):
        open_sources([*sources(place, {"path": "plain"}), Source(path=str(other))])


def test_another_codec_with_equal_arrays_is_warned_of(
    place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = store(tmp_path / "other.solfa", numbered(3), codec="another", dtype="uint32")
    with caplog.at_level(logging.WARNING):
        open_sources([*sources(place, {"path": "plain"}), Source(path=str(other))])
    assert "by none" in caplog.text and "by another" in caplog.text


def test_a_pinned_manifest_is_the_state_that_is_read(tmp_path: Path) -> None:
    root = store(tmp_path / "d.solfa", numbered(4))
    store(root, numbered(6))
    assert len(open_sources([Source(path=str(root))])) == 6
    pinned = open_sources([Source(path=str(root), manifest=1, where={"id": {"glob": "*"}})])  # type: ignore[dict-item]
    assert len(pinned) == len(pinned.values("id")) == 4
    with pytest.raises(StoreError, match="no manifest 7"):
        open_sources([Source(path=str(root), manifest=7)])


def test_a_place_without_a_dataset_is_answered_with_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"expected a Solfa dataset.*`solfa encode SOURCE"):
        open_sources([Source(path=str(tmp_path / "nowhere"))])


@pytest.mark.parametrize("hold_out", [HoldOut(fraction=0.3), HoldOut(clips=8)])
def test_no_recording_is_both_trained_on_and_held_out(place: Path, hold_out: HoldOut) -> None:
    given = sources(place, {"path": "cut", "weight": 1}, {"path": "plain", "weight": 3})
    train = open_sources(given, hold_out=hold_out, side="train")
    valid = open_sources(given, hold_out=hold_out, side="valid", weighted=False)
    assert len(train) + len(valid) == 36 + 12
    recordings = [{recording_of(clip_id) for clip_id in opened.values("id")} for opened in (train, valid)]
    assert recordings[0] and recordings[1] and not recordings[0] & recordings[1]
    assert train.weights is not None and valid.weights is None


def test_stages_fall_back_from_generate_to_evaluate_to_valid_to_what_is_held_out(place: Path) -> None:
    plain, tagged, cut = (str(place / f"{name}.solfa") for name in ("plain", "tagged", "cut"))

    def sizes(**values: Any) -> list[int]:
        dset = parse_config(Dset, values, "dset")
        return [len(open_stage(dset, stage)) for stage in ("train", "valid", "evaluate", "generate")]

    assert sizes(train=cut, valid=plain) == [36, 12, 12, 12]
    assert sizes(train=cut, valid=plain, evaluate=tagged) == [36, 12, 8, 8]
    assert sizes(train=cut, valid=plain, generate=tagged) == [36, 12, 12, 8]
    assert sizes(train=cut, hold_out={"clips": 6}, evaluate=tagged) == [28, 8, 8, 8]
    assert sizes(train=cut, hold_out={"clips": 6}) == [28, 8, 8, 8]


def test_some_clips_are_always_the_same_and_come_from_all_over_the_data(place: Path) -> None:
    given = sources(place, {"path": "cut"}, {"path": "plain"})
    few, more = (set(ids(open_sources(given, num_clips=count))) for count in (10, 20))
    assert len(few) == 10 and len(more) == 20 and few < more
    assert ids(open_sources(given, num_clips=10)) == [clip_id for clip_id in ids(open_sources(given)) if clip_id in few]
    assert ids(open_sources(given, num_clips=99)) == ids(open_sources(given))
    assert {clip_id[:2] for clip_id in few} == {"0:", "1:"}
    other_order = ids(open_sources(given[::-1], num_clips=10))
    assert {clip_id[2:] for clip_id in few} == {clip_id[2:] for clip_id in other_order}


def test_an_opened_source_can_be_pickled_for_worker_processes(place: Path) -> None:
    opened = open_sources(sources(place, {"path": "plain", "weight": 1}, {"path": "tagged", "weight": 2}))
    opened.values("caption")
    copy = pickle.loads(pickle.dumps(opened))
    assert copy.digest == opened.digest and ids(copy) == ids(opened)
    assert copy.values("caption") == opened.values("caption")


def flip_byte(dataset: Path, clip_id: str) -> None:
    """Damage the array of one clip, as a failing disk does."""
    values = open_dataset(dataset)[clip_id].array.tobytes()
    for path in sorted((dataset / "data").iterdir()):
        content = path.read_bytes()
        if (place := content.find(values)) >= 0:
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            return
    raise AssertionError(clip_id)


@pytest.fixture
def unchecked_types() -> Iterator[None]:
    """Without the type checker of the tests, which looks at an item of any sequence, drawn at random."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked_types")
def test_verify_once_stops_at_a_damaged_clip_also_in_workers(tmp_path: Path) -> None:
    damaged = store(tmp_path / "d.solfa", numbered(8))
    name = open_dataset(damaged).ids()[5]
    flip_byte(damaged, name)
    dset = Dset(train=[Source(path=str(damaged))], valid=[Source(path=str(damaged))])
    rows = Crop(num_frames=4, batch_size=2)
    assert len(list(make_loader(open_stage(dset, "train"), rows))) == 4, "nobody looks unless asked"
    for num_workers in (0, 1):
        loader = make_loader(open_stage(dset, "valid", verify="once"), rows, num_workers=num_workers)
        with pytest.raises(StoreError, match=f"{name}.*--repair") as fault:
            list(loader)
        assert "Traceback" not in str(fault.value)
