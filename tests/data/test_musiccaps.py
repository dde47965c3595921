"""Captions in a CSV beside a dataset: found by file name or id, typed, split, filtered, loaded by worker processes."""

import csv
import json
import logging
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solfa.config import parse_config
from solfa.data.batching.loader import make_loader
from solfa.data.batching.modes import Crop
from solfa.data.sources.dset import Dset, Source
from solfa.data.sources.stage_source import OpenedSource, open_sources, open_stage
from solfa.data.table import row_match as joining
from solfa.encoding.legacy_import import ArrayFacts, import_legacy
from solfa.errors import ConfigError
from tests.data.stored import Described, store

COLUMNS = (
    "ytid,start_s,end_s,audioset_positive_labels,aspect_list,caption,author_id,is_balanced_subset,is_audioset_eval"
)
YTIDS = ["-0Gj8-vB1q4", "-0SdAVK79lg", "00000000001", "_-kssA-FOzU", "zzW2_Sh-8No", "5jzoJD5pwS8"]


def write_csv(path: Path, ytids: list[str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS.split(","))
        for number, ytid in enumerate(ytids):
            labels, aspects = '/m/0140xf,"/m/02cjck"', str(["slow", f"it's number {number}"])
            caption = f'Number {number}, a song with "quotes",\nand a second line.'
            balanced, is_eval = str(number % 2 == 0), str(number % 3 == 0)
            writer.writerow([ytid, 30, 40, labels, aspects, caption, number, balanced, is_eval])
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clips as `solfa encode FOLDER` names them, the last without a row, one recording cut in two."""
    folder = tmp_path_factory.mktemp("musiccaps")
    write_csv(folder / "musiccaps-public.csv", YTIDS)
    clips = [Described(f"{ytid}.wav", 20 + number) for number, ytid in enumerate(YTIDS[:5])]
    cut = [Described(f"more/{YTIDS[5]}.wav@{at:09.3f}", 9, recording=f"more/{YTIDS[5]}.wav") for at in (0, 5)]
    # As one that was encoded through the CSV, of which every value was a text.
    texts = {"is_audioset_eval": "True", "mood": "calm"}
    store(folder / "musiccaps.solfa", [*clips, *cut, Described("unlisted.wav", 12, "its own", texts)])
    return folder


@pytest.fixture(scope="module")
def dset(place: Path) -> Dset:
    """As the shipped file says, composed with a real solver."""
    from solfa.train import main

    paths = [f"dset.train.path={place}/musiccaps.solfa", f"dset.train.table.path={place}/musiccaps-public.csv"]
    found = main.settings(main.compose(["solver=lm/base", "dset=mot/musiccaps", *paths])).cfg.dset
    assert isinstance(found, Dset)
    return found


def ids(opened: OpenedSource) -> list[str]:
    return [opened[index].id for index in range(len(opened))]


def test_the_shipped_file_splits_by_audioset_and_every_clip_has_its_caption(dset: Dset) -> None:
    train, valid = open_stage(dset, "train"), open_stage(dset, "valid")
    assert ids(valid) == [f"{YTIDS[number]}.wav" for number in (0, 3)]
    cut = [f"more/{YTIDS[5]}.wav@{at:09.3f}" for at in (0, 5)]
    assert ids(train) == [*(f"{YTIDS[number]}.wav" for number in (1, 2, 4)), *cut]
    captions = [f'Number {number}, a song with "quotes",\nand a second line.' for number in (1, 2, 4, 5, 5)]
    assert train.values("caption") == captions == [train[index].caption for index in range(5)]
    assert ids(open_stage(dset, "evaluate")) == ids(open_stage(dset, "generate")) == ids(valid)


def test_columns_are_typed_everywhere_that_metadata_is(dset: Dset) -> None:
    train = open_stage(dset, "train")
    assert train[1].metadata == {
        "ytid": "00000000001",
        "start_s": 30,
        "end_s": 40,
        "audioset_positive_labels": '/m/0140xf,"/m/02cjck"',
        "aspect_list": ["slow", "it's number 2"],
        "caption": train[1].caption,
        "author_id": 2,
        "is_balanced_subset": True,
        "is_audioset_eval": False,
    }
    assert train.values("author_id") == [1, 2, 4, 5, 5] and train.values("ytid")[1] == "00000000001"
    assert train.values("is_balanced_subset") == [False, True, True, False, False]
    batch = next(iter(make_loader(train, Crop(num_frames=4, batch_size=5, shuffle=False))))
    assert list(batch.captions) == train.values("caption")
    assert [row["aspect_list"] for row in batch.metadata] == train.values("aspect_list")


def opened(place: Path, where: dict[str, Any] | None = None, hold_out: Any = None, **table: Any) -> list[OpenedSource]:
    path = place / "musiccaps-public.csv"
    source = {
        "path": str(place / "musiccaps.solfa"),
        "table": {"path": str(path), "key": "ytid", **table},
        "where": where,
    }
    values = {"train": source, **({"hold_out": hold_out} if hold_out else {"valid": source})}
    dset = parse_config(Dset, values, "dset")
    return [open_stage(dset, "train"), open_stage(dset, "valid")]


def test_clips_without_a_row_keep_what_they_have_and_can_be_left_out(place: Path) -> None:
    everything, _ = opened(place)
    assert ids(everything)[-1] == "unlisted.wav" and everything.values("caption")[-1] == "its own"
    assert everything.values("mood") == [None] * 7 + ["calm"]
    assert len(opened(place, {"ytid": {"present": True}})[0]) == 7
    # Of its own this clip is no such clip: its dataset says "True", and a text is not true.
    assert ids(opened(place, {"is_audioset_eval": True})[0]) == [f"{YTIDS[0]}.wav", f"{YTIDS[3]}.wav"]
    with pytest.raises(ConfigError, match=r"'is_eval'.*did you mean .* id, .* ytid"):
        opened(place, {"is_eval": True})


def test_conditions_on_a_table_and_held_out_recordings_go_together(place: Path) -> None:
    where = {"aspect_list": "slow", "author_id": {"min": 1}}
    train, valid = opened(place, where, hold_out={"clips": 2})
    assert len(train) + len(valid) == 6 and set(ids(train)).isdisjoint(ids(valid))
    for side in (train, valid):
        assert [side[index].metadata["ytid"] for index in range(len(side))] == side.values("ytid")
        assert all(f"{ytid}.wav" in clip_id for ytid, clip_id in zip(side.values("ytid"), ids(side), strict=True))


def test_a_table_weighs_clips_and_stands_beside_sources_without_one(place: Path, tmp_path: Path) -> None:
    plain = {"path": str(store(tmp_path / "plain.solfa", [Described("p.wav", 8, "plain")])), "weight": 1}
    table = {"path": str(place / "musiccaps-public.csv"), "key": "ytid"}
    weighed = {"path": str(place / "musiccaps.solfa"), "table": table, "weight": 1, "weight_column": "author_id"}
    train = open_stage(parse_config(Dset, {"train": [weighed, plain], "valid": plain}, "dset"), "train")
    assert train.weights is not None
    weight_of = dict(zip(ids(train), train.weights.clips.tolist(), strict=True))
    assert weight_of[f"0:{YTIDS[4]}.wav"] == pytest.approx(2 * weight_of[f"0:{YTIDS[2]}.wav"])
    assert train.values("caption")[-1] == train[len(train) - 1].caption == "plain"
    assert train.values("author_id")[-1] is None


def test_the_order_of_an_epoch_does_not_depend_on_the_table(place: Path) -> None:
    with_table, without = opened(place)[0], open_sources([Source(path=str(place / "musiccaps.solfa"))])
    assert with_table.digest == without.digest and with_table.fingerprint == without.fingerprint
    mode = Crop(num_frames=5, batch_size=3)
    found = [[batch.ids for batch in make_loader(source, mode)] for source in (with_table, without)]
    assert found[0] == found[1]


def test_worker_processes_load_the_same_captions(place: Path) -> None:
    source = opened(place, {"ytid": {"present": True}})[0]
    mode = Crop(num_frames=5, batch_size=3)
    alone = [(batch.ids, batch.captions, batch.metadata) for batch in make_loader(source, mode)]
    assert all(caption for _, captions, _ in alone for caption in captions)
    # What a spawned process is sent, without the seconds that it takes to start one.
    sent = pickle.loads(pickle.dumps(source))
    assert sent.values("is_audioset_eval") == source.values("is_audioset_eval") and sent.digest == source.digest
    loader = make_loader(sent, mode, num_workers=1, multiprocessing_context="fork")
    assert [(batch.ids, batch.captions, batch.metadata) for batch in loader] == alone


def test_stages_share_what_was_joined_until_the_table_changes(
    place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = write_csv(tmp_path / "t.csv", YTIDS)
    with caplog.at_level(logging.INFO, joining.__name__):
        train, valid = opened(place, path=str(table))
    [line] = caplog.messages
    assert re.search(r"7 of 8 clips.*\b6 rows.*'unlisted\.wav'", line)
    assert "SHA-256 " in line, "so that a log tells which captions a run had"
    assert train.values("caption") == valid.values("caption")
    table.write_text(table.read_text().replace("Number 2", "Another"))
    assert opened(place, path=str(table))[0].values("caption")[2].startswith("Another")


def test_a_changed_table_is_refused_where_its_content_is_pinned(place: Path, tmp_path: Path) -> None:
    table = write_csv(tmp_path / "t.csv", YTIDS)
    source = {"path": str(place / "musiccaps.solfa"), "table": {"path": str(table), "key": "ytid"}}
    dset = parse_config(Dset, {"train": source, "hold_out": {"clips": 2}}, "dset")
    pinned = dset.mapped(lambda one: one.model_copy(update={"table": one.table and one.table.pinned()}))
    # What a run notes down about its data can be read again.
    again = parse_config(Dset, json.loads(json.dumps(pinned.model_dump(mode="json"))), "note")
    assert again == pinned and len(open_stage(again, "train")) == 6
    table.write_text(table.read_text().replace("Number 2", "Another"))
    with pytest.raises(ConfigError, match=r"t\.csv: expected .*SHA-256"):
        open_stage(again, "train")


@pytest.mark.parametrize("with_table_at_import", [False, True])
def test_an_imported_folder_of_tokens_is_split_like_any_dataset(
    tmp_path: Path, dset: Dset, with_table_at_import: bool
) -> None:
    table = write_csv(tmp_path / "musiccaps-public.csv", YTIDS)
    arrays = tmp_path / "pre_encoded_audio"
    arrays.mkdir()
    rng = np.random.default_rng(0)
    codes = {ytid: rng.integers(0, 2048, (4, 30 + number)) for number, ytid in enumerate(YTIDS)}
    for ytid, array in codes.items():
        np.save(arrays / f"{ytid}.npy", array)
    (tmp_path / "pre_encoded_metadata.json").write_text(json.dumps({ytid: f"{ytid}.npy" for ytid in YTIDS}))
    facts = ArrayFacts(kind="codes", sample_rate=32_000, hop_length=640, codebook_size=2048)
    source = table if with_table_at_import else None
    report = import_legacy(arrays, tmp_path / "musiccaps.solfa", facts=facts, source=source)
    assert (report.num_clips, report.layout) == (6, "MusicCaps tokens")

    def placed(one: Any) -> Any:
        at = one.table.model_copy(update={"path": str(table)})
        return one.model_copy(update={"path": str(tmp_path / "musiccaps.solfa"), "table": at})

    here = dset.mapped(placed)
    train, valid = open_stage(here, "train"), open_stage(here, "valid")
    assert sorted(ids(train)) == sorted(YTIDS[number] for number in (1, 2, 4, 5))
    assert sorted(ids(valid)) == sorted(YTIDS[number] for number in (0, 3))
    for opened_source in (train, valid):
        for index, clip_id in enumerate(ids(opened_source)):
            clip = opened_source[index]
            assert np.array_equal(clip.array, codes[clip_id].T)
            assert (clip.caption or "").startswith(f"Number {YTIDS.index(clip_id)},")
            assert clip.metadata["start_s"] == 30
