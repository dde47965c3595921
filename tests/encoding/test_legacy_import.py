"""Old layouts, written by hand as their own scripts write them, become datasets."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from solfa.codecs.catalogue import load_codec
from solfa.encoding.api import encode
from solfa.encoding.legacy_import import ArrayFacts, ImportReport, import_legacy
from solfa.errors import ConfigError, StoreError
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.legacy.found_clips import ArrayLayout
from solfa.store.verification import verify

RNG = np.random.default_rng(0)
MULAW = load_codec("mulaw")
"""Given as an object, it encodes in this process."""
LATENTS = ArrayFacts(kind="latents", sample_rate=44100, hop_length=2048, num_channels=2)
CODES = ArrayFacts(kind="codes", sample_rate=32000, hop_length=640, codebook_size=2048)


def codes(num_frames: int, num_codebooks: int = 4) -> np.ndarray:
    return RNG.integers(0, 2048, (num_codebooks, num_frames))


def write_item(root: Path, number: int, array: np.ndarray, mask: list[int], **known: Any) -> Path:
    """Write one item as stable-audio-tools does."""
    stem = root / str(number // 10**10) / f"{number:013d}"
    stem.parent.mkdir(parents=True, exist_ok=True)
    np.save(f"{stem}.npy", array)
    facts = {
        "path": f"/data/{known.get('relpath')}",
        "timestamps": [0.0, 1.0],
        "seconds_start": 0,
        "seconds_total": 2,
        "padding_mask": mask,
        "sample_rate": 44100,
    }
    Path(f"{stem}.json").write_text(json.dumps(facts | known))
    (root / "details.json").write_text(
        json.dumps({"model_config": {}, "dataset_config": {}, "sample_size": 1, "args": {}})
    )
    return stem


def failures_of(report: ImportReport) -> dict[str, str]:
    return {failure.id: failure.error for failure in report.failures}


def test_stable_audio_latents_are_turned_and_their_padding_is_cut_off(tmp_path: Path) -> None:
    first, second = (RNG.standard_normal((6, 12)).astype(np.float32) for _ in range(2))
    write_item(tmp_path / "old", 0, first, [1] * 5 + [0] * 7, relpath="a/b 1.wav", prompt="rain", bpm=90)
    write_item(tmp_path / "old", 10**10, second, [1] * 12, relpath="c\n.wav", duration=12 * 2048 / 44100 - 0.01)
    np.save(tmp_path / "old/silence.npy", np.zeros((1, 6, 12)))
    report = import_legacy(tmp_path / "old", tmp_path / "new", facts=LATENTS)
    dataset = open_dataset(tmp_path / "new")
    assert (report.num_clips, report.num_failed, dataset.ids()) == (2, 0, ["a/b 1.wav", "c%0A.wav"])
    np.testing.assert_array_equal(dataset[0].array, first.T[:5])
    np.testing.assert_array_equal(dataset[1].array, second.T)
    assert (dataset[0].caption, dataset[0].source["key"], dataset[0].num_samples) == ("rain", "a/b 1.wav", 5 * 2048)
    assert dataset[0].metadata["bpm"] == 90 and "padding_mask" not in dataset[0].metadata
    assert dataset[1].num_samples == 12 * 2048 - 441
    assert dataset.info.array.width == 6 and dataset.info.array.dtype == "float32"
    assert "codec" in report.notes[0] and verify(tmp_path / "new").problems == []


def test_stable_audio_tokens_saved_the_wrong_way_round_are_read_if_nothing_was_padded(tmp_path: Path) -> None:
    array = codes(20)
    known = {"sample_rate": 32000}
    write_item(tmp_path / "old", 0, array.T, [1, 1, 1, 1], relpath="full.wav", **known)
    write_item(tmp_path / "old", 1, array.T, [1, 1, 0, 0], relpath="padded.wav", **known)
    write_item(tmp_path / "old", 2, array, [1] * 11 + [0] * 9, relpath="right.wav", **known)
    with pytest.raises(ConfigError, match="give `width` or `layout`"):
        import_legacy(tmp_path / "old", tmp_path / "new", facts=CODES)
    report = import_legacy(tmp_path / "old", tmp_path / "new", facts=CODES.model_copy(update={"width": 4}))
    dataset = open_dataset(tmp_path / "new")
    assert dataset.ids() == ["full.wav", "right.wav"]
    np.testing.assert_array_equal(dataset[0].array, array.T)
    np.testing.assert_array_equal(dataset[1].array, array.T[:11])
    assert "counts 4 codebooks instead of 20 frames" in failures_of(report)["padded.wav"]


def test_a_recording_that_stable_audio_drew_twice_keeps_both_under_one_key(tmp_path: Path) -> None:
    for number in range(2):
        write_item(tmp_path / "old", number, RNG.standard_normal((6, 3)), [1] * 3, relpath="a.wav")
    import_legacy(tmp_path / "old", tmp_path / "new", facts=LATENTS)
    dataset = open_dataset(tmp_path / "new")
    assert dataset.ids() == ["a.wav", "a.wav#0000000000001"]
    assert {clip.source["key"] for clip in dataset} == {"a.wav"}


def test_what_cannot_be_read_becomes_a_failed_clip_with_its_reason(tmp_path: Path) -> None:
    good = RNG.standard_normal((6, 9)).astype(np.float32)
    old = tmp_path / "old"
    write_item(old, 0, good, [1] * 9, relpath="good.wav")
    torn = write_item(old, 1, good, [1] * 9, relpath="torn.wav").with_suffix(".npy")
    torn.write_bytes(torn.read_bytes()[:100])
    write_item(old, 2, good, [1] * 9, relpath="gone.wav").with_suffix(".npy").unlink()
    write_item(old, 3, good, [1] * 9, relpath="no json.wav").with_suffix(".json").write_text("{")
    write_item(old, 4, good, [1] * 4, relpath="mask.wav")
    write_item(old, 5, good, [0] * 9, relpath="silent.wav")
    write_item(old, 6, np.full((6, 9), np.nan), [1] * 9, relpath="nan.wav")
    write_item(old, 7, good[:5], [1] * 9, relpath="narrow.wav")
    write_item(old, 8, good, [1] * 9, relpath="rate.wav", sample_rate=48000)
    write_item(old, 9, np.array([[{}]], dtype=object), [1], relpath="pickle.wav")
    write_item(old, 10, codes(9, 6), [1] * 9, relpath="integers.wav")
    report = import_legacy(old, tmp_path / "new", facts=LATENTS)
    assert (report.num_clips, report.num_failed) == (1, 10)
    expected = {
        "torn.wav": "not a readable .npy file of 100 bytes",
        "gone.wav": "missing",
        "0000000000003": "not a JSON object",
        "mask.wav": "padding_mask has 4 entries for 9 frames",
        "silent.wav": "holds no frame",
        "nan.wav": "not finite",
        "narrow.wav": r"found [5, 9]",
        "rate.wav": "made at 48000 Hz, the codec has 44100 Hz",
        "pickle.wav": "not a readable .npy file",
        "integers.wav": "expected latents in floating point, found int64",
    }
    found = {failure.id: failure.error for failure in open_dataset(tmp_path / "new").failures()}
    assert found.keys() == expected.keys()
    assert [name for name, reason in expected.items() if reason not in found[name]] == []
    assert verify(tmp_path / "new").problems == []


@pytest.mark.parametrize("shape", ["names", "objects"])
def test_musiccaps_folders_of_both_shapes(shape: str, tmp_path: Path) -> None:
    folder = tmp_path / "old/pre_encoded_audio"
    folder.mkdir(parents=True)
    arrays = {"-0Gj8-vB1q4": codes(7), "0-L2k": codes(5)[None], "square": codes(4), "offset": codes(6) + 128256}
    for ytid, array in arrays.items():
        np.save(folder / f"{ytid}.npy", array)
    np.save(folder / "forgotten.npy", codes(3))
    names = [*arrays, "missing"]
    if shape == "names":
        entries: dict[str, Any] = {ytid: f"{ytid}.npy" for ytid in names}
    else:
        entries = {ytid: {"path": f"/scratch/run/{ytid}.npy", "caption": f"{ytid}!", "start": 30} for ytid in names}
    (tmp_path / "old/pre_encoded_metadata.json").write_text(json.dumps(entries))
    report = import_legacy(tmp_path / "old", tmp_path / "new", facts=CODES)
    dataset = open_dataset(tmp_path / "new")
    assert dataset.ids() == ["-0Gj8-vB1q4", "0-L2k", "square"]
    for clip in dataset:
        np.testing.assert_array_equal(clip.array, arrays[clip.id].reshape(4, -1).T)
        assert clip.array.dtype == np.uint16 and clip.source["key"] == clip.id
        assert (clip.caption, clip.metadata.get("start")) == ((None, None) if shape == "names" else (f"{clip.id}!", 30))
    found = failures_of(report)
    assert found.keys() == {"missing", "offset"} and "is missing" in found["missing"]
    assert "expected codes from 0 to 2047" in found["offset"]
    assert "forgotten.npy" in " ".join(report.notes)


def test_musiccaps_paths_never_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    np.save(tmp_path / "secret.npy", codes(7))
    np.save(tmp_path / "old/good.npy", codes(7))
    entries = {"a": "../secret.npy", "b": str(tmp_path / "secret.npy"), "c": {"file": 7}, "d": "good.npy", "e": "x\0"}
    (tmp_path / "old/pre_encoded_metadata.json").write_text(json.dumps(entries))
    report = import_legacy(tmp_path / "old", tmp_path / "new", facts=CODES)
    assert open_dataset(tmp_path / "new").ids() == ["d"] and failures_of(report).keys() == {"a", "b", "c", "e"}


def test_plain_npy_folders_are_turned_by_width(tmp_path: Path) -> None:
    (tmp_path / "old/x").mkdir(parents=True)
    one, two, square = codes(9), codes(8), codes(4)
    np.save(tmp_path / "old/x/one.npy", one)
    np.save(tmp_path / "old/two.wav.npy", two.T.astype(np.uint16))
    (tmp_path / "old/x/one.json").write_text('{"caption": "a bell", "key": "C"}')
    (tmp_path / "old/two.wav.txt").write_text("a gong\n")
    facts = CODES.model_copy(update={"width": 4})
    import_legacy(tmp_path / "old", tmp_path / "new", facts=facts)
    dataset = open_dataset(tmp_path / "new")
    assert dataset.ids() == ["two.wav", "x/one"]
    np.testing.assert_array_equal(dataset["x/one"].array, one.T)
    np.testing.assert_array_equal(dataset["two.wav"].array, two.T)
    assert (dataset["x/one"].caption, dataset["two.wav"].caption) == ("a bell", "a gong")
    assert dataset["x/one"].metadata == {"caption": "a bell", "key": "C"}

    np.save(tmp_path / "old/square.npy", square)
    report = import_legacy(tmp_path / "old", tmp_path / "guess", facts=facts)
    assert "say which with `layout`" in failures_of(report)["square"]
    (tmp_path / "old/two.wav.npy").unlink()
    import_legacy(tmp_path / "old", tmp_path / "told", facts=CODES, layout=ArrayLayout.CHANNELS_FIRST)
    np.testing.assert_array_equal(open_dataset(tmp_path / "told")["square"].array, square.T)


def test_without_a_codec_or_facts_the_import_asks_for_them(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    np.save(tmp_path / "old/a.npy", codes(9))
    with pytest.raises(ConfigError, match=r"codec .*sample_rate, hop_length .*codebook_size"):
        import_legacy(tmp_path / "old", tmp_path / "new")
    with pytest.raises(ConfigError, match="give `width` or `layout`"):
        import_legacy(tmp_path / "old", tmp_path / "new", facts=CODES)
    with pytest.raises(ConfigError, match="codebook_size"):
        import_legacy(
            tmp_path / "old", tmp_path / "new", facts=ArrayFacts(kind="codes", sample_rate=1, hop_length=1, width=4)
        )
    assert not (tmp_path / "new").exists()


def test_refusals_write_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "empty").mkdir()
    np.save(tmp_path / "old/a.npy", codes(9))
    facts = CODES.model_copy(update={"width": 4})
    with pytest.raises(StoreError, match=r"none of the clips.*found \[4, 9\]"):
        import_legacy(tmp_path / "old", tmp_path / "new", facts=CODES.model_copy(update={"width": 8}))
    with pytest.raises(StoreError, match="found none"):
        import_legacy(tmp_path / "empty", tmp_path / "new", facts=facts)
    with pytest.raises(ConfigError, match="found nothing"):
        import_legacy(tmp_path / "nowhere", tmp_path / "new", facts=facts)
    with pytest.raises(ConfigError, match="empty folder"):
        import_legacy(tmp_path / "old", tmp_path / "old", facts=facts)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.npy", "empty", "old"]
    import_legacy(tmp_path / "old", tmp_path / "new", facts=facts)
    before = sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "new").rglob("*"))
    with pytest.raises(ConfigError, match=r"settings.*codebook_size: 2048\b.* 4096\b"):
        import_legacy(tmp_path / "old", tmp_path / "new", facts=facts.model_copy(update={"codebook_size": 4096}))
    assert sorted((path, path.stat().st_mtime_ns) for path in (tmp_path / "new").rglob("*")) == before


def write_audio(folder: Path, names: list[str]) -> None:
    folder.mkdir()
    for index, name in enumerate(names):
        (folder / name).parent.mkdir(exist_ok=True)
        soundfile.write(folder / name, 0.1 * RNG.standard_normal(800 + 10 * index), 16000)


def test_encoding_continues_where_an_old_run_stopped(tmp_path: Path) -> None:
    """Two of five were encoded by an old script; a third file was torn when it died."""
    names = ["a.wav", "b.wav", "sub/c.wav", "sub/d.wav", "e.wav"]
    write_audio(tmp_path / "audio", names)
    encode(tmp_path / "audio", tmp_path / "whole", codec=MULAW, num_workers=0)
    whole = open_dataset(tmp_path / "whole")
    (tmp_path / "old").mkdir()
    for name in ("a", "sub/c"):
        np.save(tmp_path / "old" / f"{Path(name).name}.npy", whole[f"{name}.wav"].array.T.astype(np.int64))
    (tmp_path / "old/e.npy").write_bytes(b"\x93NUMPY torn")

    arguments: dict[str, Any] = {"codec": "mulaw", "source": tmp_path / "audio", "leave_out_failed": True}
    report = import_legacy(tmp_path / "old", tmp_path / "new", **arguments)
    assert (report.num_clips, report.num_failed, list(failures_of(report))) == (2, 0, ["e.wav"])
    assert report.fingerprint == whole.info.fingerprint
    assert open_dataset(tmp_path / "new")["a.wav"].source["uri"] == "a.wav"

    continued = encode(tmp_path / "audio", tmp_path / "new", codec=MULAW, num_workers=0)
    finished = open_dataset(tmp_path / "new")
    assert continued.failed == 0 and sorted(finished.ids()) == sorted(names)
    for clip in finished:
        np.testing.assert_array_equal(clip.array, whole[clip.id].array)
    assert verify(tmp_path / "new").problems == []


def test_the_keys_of_stable_audio_output_are_those_of_the_folder(tmp_path: Path) -> None:
    write_audio(tmp_path / "audio", ["sub/c.wav", "d.wav"])
    encode(tmp_path / "audio", tmp_path / "whole", codec=MULAW, num_workers=0)
    whole = open_dataset(tmp_path / "whole")
    array = whole["sub/c.wav"].array.T
    rate = whole.info.array.sample_rate
    write_item(tmp_path / "old", 0, array, [1] * array.shape[1], relpath="sub/c.wav", sample_rate=rate)
    import_legacy(tmp_path / "old", tmp_path / "new", codec="mulaw")
    report = encode(tmp_path / "audio", tmp_path / "new", codec=MULAW, num_workers=0)
    assert report.clips == 2 and sorted(open_dataset(tmp_path / "new").ids()) == ["d.wav", "sub/c.wav"]


def test_a_stem_that_two_recordings_share_is_matched_to_neither(tmp_path: Path) -> None:
    write_audio(tmp_path / "audio", ["x/a.wav", "y/a.wav", "b.wav"])
    (tmp_path / "old").mkdir()
    for name in "ab":
        np.save(tmp_path / "old" / f"{name}.npy", codes(9))
    facts = CODES.model_copy(update={"width": 4})
    report = import_legacy(tmp_path / "old", tmp_path / "new", facts=facts, source=tmp_path / "audio")
    assert open_dataset(tmp_path / "new").ids() == ["a", "b.wav"]
    assert any(re.search(r"recording.*\b1\b.*first: a\b", note) for note in report.notes)


def write_crops(root: Path, whole: Dataset, crops: dict[str, tuple[int, int]]) -> None:
    """Write crops of recordings of one frame per sample as stable-audio-tools does: one each, with its timestamps."""
    for number, (name, (start, stop)) in enumerate(crops.items()):
        total = whole[name].num_frames
        array = whole[name].array[start:stop].T.astype(np.int64)
        times = [start / total, stop / total]
        write_item(root, number, array, [1] * (stop - start), relpath=name, sample_rate=16000, timestamps=times)


@pytest.mark.parametrize("with_source", [True, False])
def test_the_rest_of_recordings_is_encoded_after_importing_crops_of_them(tmp_path: Path, with_source: bool) -> None:
    write_audio(tmp_path / "audio", ["a.wav", "b.wav", "c.wav", "new.wav"])
    encode(tmp_path / "audio", tmp_path / "whole", codec=MULAW, num_workers=0)
    whole = open_dataset(tmp_path / "whole")
    write_crops(tmp_path / "old", whole, {"a.wav": (200, 500), "b.wav": (0, 300), "c.wav": (0, 820)})
    source = tmp_path / "audio" if with_source else None
    report = import_legacy(tmp_path / "old", tmp_path / "new", codec="mulaw", source=source)
    # 300 of 800, 300 of 810, 820 of 820
    assert any("58%" in note and "3 recordings" in note for note in report.notes)
    continued = encode(tmp_path / "audio", tmp_path / "new", codec=MULAW, num_workers=0)
    assert (continued.new_clips, continued.unplaced) == (4, 0)
    finished = open_dataset(tmp_path / "new")
    assert sum(clip.num_frames for clip in finished) == sum(clip.num_frames for clip in whole)
    assert continued.compression == pytest.approx(continued.num_frames * 2 / continued.num_bytes)
    pieces = {clip.id: clip.array for clip in finished}
    first = "a.wav@00000.013" if with_source else "a.wav"
    joined = np.concatenate([pieces["a.wav@00000.000"], pieces[first], pieces["a.wav@00000.031"]])
    np.testing.assert_array_equal(joined, whole["a.wav"].array)
    again = encode(tmp_path / "audio", tmp_path / "new", codec=MULAW, num_workers=0)
    assert again.new_clips == 0 and verify(tmp_path / "new").problems == []


def test_imported_clips_without_a_place_are_never_taken_for_all_of_their_recordings(tmp_path: Path) -> None:
    write_audio(tmp_path / "audio", ["a.wav", "b.wav"])
    (tmp_path / "old").mkdir()
    for name, num_frames in (("a", 300), ("b", 810)):
        np.save(tmp_path / "old" / f"{name}.npy", np.full((1, num_frames), 128))
    report = import_legacy(tmp_path / "old", tmp_path / "new", codec="mulaw", source=tmp_path / "audio")
    assert any(re.search(r"length.*\b1\b.*first: a\.wav", note) for note in report.notes)
    continued = encode(tmp_path / "audio", tmp_path / "new", codec=MULAW, num_workers=0)
    assert (continued.new_clips, continued.unplaced) == (0, 1)
    assert continued.compression > 0


def test_a_crop_that_failed_stays_failed_and_hides_no_loss(tmp_path: Path) -> None:
    write_audio(tmp_path / "audio", ["a.wav", "b.wav"])
    encode(tmp_path / "audio", tmp_path / "whole", codec=MULAW, num_workers=0)
    write_crops(tmp_path / "old", open_dataset(tmp_path / "whole"), {"a.wav": (200, 500), "b.wav": (0, 810)})
    (tmp_path / "old/0/0000000000000.npy").write_bytes(b"torn")
    import_legacy(tmp_path / "old", tmp_path / "new", codec="mulaw")
    report = encode(tmp_path / "audio", tmp_path / "new", codec=MULAW, num_workers=0)
    assert [failed.id for failed in report.failures] == ["a.wav"]
