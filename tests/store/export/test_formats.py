"""What each format looks like to a reader that knows nothing of Solfa."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from solfa.encoding.legacy_import import import_legacy
from solfa.errors import ConfigError, StoreError
from solfa.files.id_names import flat_name, tree_name
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.export.dataset_export import export_dataset
from solfa.store.export.format_names import ExportFormat, PartLimits, part_ranges
from solfa.store.export.musiccaps import bare_names


def test_stable_audio_layout_is_what_its_readers_expect(latents: Dataset, tmp_path: Path) -> None:
    silence = np.ones((5, 6), np.float16)
    report = export_dataset(
        latents, tmp_path / "out", ExportFormat.STABLE_AUDIO, silence=silence, details={"args": {"batch_size": 2}}
    )
    details = json.loads((tmp_path / "out/details.json").read_text())
    assert details.keys() >= {"model_config", "dataset_config", "sample_size", "args"}
    assert details["sample_size"] == max(latents.num_frames) * 2048 and details["args"] == {"batch_size": 2}
    assert np.load(tmp_path / "out/silence.npy").shape == (1, 6, 5) and report.notes == ()
    names = sorted(path.name for path in (tmp_path / "out/0").iterdir())
    assert names == [f"{index:013d}.{suffix}" for index in range(10) for suffix in ("json", "npy")]
    item = json.loads((tmp_path / "out/0/0000000000001.json").read_text())
    array = np.load(tmp_path / "out/0/0000000000001.npy", allow_pickle=False)
    np.testing.assert_array_equal(array, latents[1].array.T)
    assert item["padding_mask"] == [1] * array.shape[1]
    assert (item["prompt"], item["relpath"], item["path"]) == (latents[1].caption, "drums/kick", "music/1.wav")
    # 1,000 samples from one second on, of a recording of a minute and one sample, all at 44.1 kHz.
    assert (item["seconds_start"], item["seconds_total"], item["start_time"]) == (1, 61, 1.0)
    assert item["end_time"] == pytest.approx(1 + 1000 / 44100)
    assert item["timestamps"] == pytest.approx([44100 / 2646001, 45100 / 2646001])
    assert (item["sample_rate"], item["audio_channels"], item["duration"]) == (44100, 2, latents[1].seconds)


def test_the_layouts_own_keys_win_over_metadata_of_the_same_name(latents: Dataset, tmp_path: Path) -> None:
    export_dataset(latents, tmp_path / "out", ExportFormat.STABLE_AUDIO)
    item = json.loads((tmp_path / "out/0/0000000000000.json").read_text())
    assert item["path"] == "music/0.wav" and item["solfa"]["metadata"]["path"] == "mine"
    assert item["tags"] == ["a", None, 1.5]


def listed(root: Path) -> list[str]:
    """List the arrays of a folder as stable-audio-tools' reader does, which takes every .npy if there is no list."""
    return [line.strip() for line in (root / "filelist.txt").read_text().splitlines()]


def test_the_file_list_names_every_clip_once_and_not_the_silence(latents: Dataset, tmp_path: Path) -> None:
    export_dataset(latents, tmp_path / "out", ExportFormat.STABLE_AUDIO, silence=np.ones((5, 6), np.float16))
    assert listed(tmp_path / "out") == [f"0/{index:013d}.npy" for index in range(len(latents))]
    assert all((tmp_path / "out" / name).is_file() for name in listed(tmp_path / "out"))


def test_padded_clips_can_be_stacked_and_are_imported_without_their_padding(latents: Dataset, tmp_path: Path) -> None:
    silence = np.arange(40 * 6, dtype=np.float16).reshape(40, 6)
    report = export_dataset(latents, tmp_path / "out", ExportFormat.STABLE_AUDIO, silence=silence, pad_frames=40)
    assert "latent_crop_length" in report.notes[0]
    for name, clip in zip(listed(tmp_path / "out"), latents, strict=True):
        array = np.load(tmp_path / "out" / name)
        mask = json.loads((tmp_path / "out" / name).with_suffix(".json").read_text())["padding_mask"]
        assert array.shape[1] == len(mask) == max(40, clip.num_frames) and sum(mask) == clip.num_frames
        np.testing.assert_array_equal(array[:, : clip.num_frames], clip.array.T)
        np.testing.assert_array_equal(array[:, clip.num_frames :], silence.T[:, clip.num_frames :])
    import_legacy(tmp_path / "out", tmp_path / "again.solfa")
    again = open_dataset(tmp_path / "again.solfa")
    assert all(np.array_equal(clip.array, again[clip.id].array) for clip in latents)
    with pytest.raises(ConfigError, match="padded to 50 frames"):
        export_dataset(
            latents, tmp_path / "out", ExportFormat.STABLE_AUDIO, silence=np.ones((50, 6), np.float16), pad_frames=50
        )
    with pytest.raises(ConfigError, match=r"at least 41 frames .*found 40"):
        export_dataset(latents, tmp_path / "new", ExportFormat.STABLE_AUDIO, silence=silence, pad_frames=41)


def test_an_absent_silence_is_reported(latents: Dataset, tmp_path: Path) -> None:
    report = export_dataset(latents, tmp_path / "out", ExportFormat.STABLE_AUDIO)
    assert len(report.notes) == 1 and "silence.npy" in report.notes[0]


def test_musiccaps_layout_maps_every_name_to_its_codes(codes: Dataset, tmp_path: Path) -> None:
    report = export_dataset(codes, tmp_path / "out", ExportFormat.MUSICCAPS)
    files = json.loads((tmp_path / "out/pre_encoded_metadata.json").read_text())
    assert len(files) == len(set(files.values())) == len(codes)
    for clip, name in zip(codes, files.values(), strict=True):
        array = np.load(tmp_path / "out/pre_encoded_audio" / name, allow_pickle=False)
        assert array.dtype == np.int64
        np.testing.assert_array_equal(array, clip.array.T)
        # The shift of a language model's vocabulary must not wrap around.
        assert (array + 128256).min() >= 128256
    assert files["song@00030.000"] == "song@00030.000.npy"
    assert files["a:b*c?"] == "a%3Ab%2Ac%3F.npy"
    # Without its extension, it would be the other clip.
    assert files["drums/kick.wav"] == "drums%2Fkick.wav.npy" and files["drums/kick"] == "drums%2Fkick.npy"
    assert len(report.notes) == 1 and "drums/kick.wav" in report.notes[0]


def test_bare_names_lose_extensions_of_audio_and_never_collide() -> None:
    assert bare_names(["-0Gj8-vB1q4.wav", "x.WAV", "_a.b.flac", "y", "z.v2", "s.mp3@00030.000"]) == [
        "-0Gj8-vB1q4",
        "x",
        "_a.b",
        "y",
        "z.v2",
        "s@00030.000",
    ]
    assert bare_names([".wav", "d/.wav", ""]) == [".wav", "d/.wav", ""]
    assert bare_names(["a.wav", "a.flac", "b.wav"]) == ["a.wav", "a.flac", "b"]
    # `a.wav` is taken back by the first, so the third cannot have it.
    assert bare_names(["a.wav", "a.flac", "a.wav.mp3"]) == ["a.wav", "a.flac", "a.wav.mp3"]


def test_a_musiccaps_export_of_an_earlier_version_is_read(codes: Dataset, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.MUSICCAPS)
    arrays = tmp_path / "out/pre_encoded_audio"
    for clip_id, name in zip(codes.ids(), bare_names(codes.ids()), strict=True):
        (arrays / f"{flat_name(name)}.npy").rename(arrays / f"{flat_name(clip_id)}.npy")
    report = import_legacy(tmp_path / "out", tmp_path / "y.solfa")
    assert (report.num_clips, report.num_failed) == (len(codes), codes.num_failed)


def test_npy_folder_mirrors_the_ids_and_stays_inside(codes: Dataset, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.NPY)
    np.testing.assert_array_equal(np.load(tmp_path / "out/drums/kick.wav.npy"), codes["drums/kick.wav"].array)
    described = json.loads((tmp_path / "out/drums/kick.json").read_text())
    assert described["num_samples"] == codes["drums/kick"].num_samples and described["metadata"] == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x.solfa"]
    assert len(list((tmp_path / "out").rglob("*.npy"))) == len(codes)


def test_webdataset_tars_are_plain_reproducible_and_of_limited_size(codes: Dataset, tmp_path: Path) -> None:
    for name in ("one", "two"):
        export_dataset(codes, tmp_path / name, ExportFormat.WEBDATASET, limits=PartLimits(max_clips=4))
    tars = sorted((tmp_path / "one").glob("*.tar"))
    assert [tar.name for tar in tars] == ["000000.tar", "000001.tar", "000002.tar"]
    assert all(tar.read_bytes() == (tmp_path / "two" / tar.name).read_bytes() for tar in tars)
    with tarfile.open(tars[1]) as tar:
        members = tar.getmembers()
        assert [member.name for member in members[:2]] == ["000000004.npy", "000000004.json"]
        assert {(member.mtime, member.uid, member.gid, member.uname) for member in members} == {(0, 0, 0, "")}
        array = np.load(io.BytesIO(tar.extractfile(members[0]).read()), allow_pickle=False)
        assert json.loads(tar.extractfile(members[1]).read())["id"] == codes[4].id
    np.testing.assert_array_equal(array, codes[4].array)


def test_parquet_is_read_by_others(latents: Dataset, tmp_path: Path) -> None:
    export_dataset(latents, tmp_path / "out", ExportFormat.PARQUET, limits=PartLimits(max_clips=4))
    table = pd.read_parquet(tmp_path / "out")
    assert len(table) == 10 and list(table["id"]) == latents.ids()
    row = table.iloc[6]
    assert row["array"].dtype == np.float32
    np.testing.assert_array_equal(row["array"].reshape(row["num_frames"], -1), latents[6].array)
    assert json.loads(row["metadata"]) == latents[6].metadata
    info = json.loads(pq.read_schema(tmp_path / "out/clips-00000.parquet").metadata[b"solfa"])
    assert info["fingerprint"] == latents.info.fingerprint


def test_parts_cover_all_clips_in_order_within_their_limits() -> None:
    sizes = np.array([5, 5, 5, 100, 1, 1, 1, 1], np.int64)
    parts = list(part_ranges(sizes, PartLimits(max_clips=3, max_bytes=10)))
    assert parts == [range(2), range(2, 3), range(3, 4), range(4, 7), range(7, 8)]
    assert list(part_ranges(sizes[:0], PartLimits())) == []


@pytest.mark.parametrize("name_of", [flat_name, tree_name])
def test_names_are_unique_visible_and_short(name_of) -> None:
    ids = [
        "a/b",
        "a%2Fb",
        "a",
        "a.npy/b",
        "a%2Enpy/b",
        "",
        "/",
        "//",
        ".",
        "..",
        "../..",
        ".a",
        "%2Ea",
        "x" * 300,
        "x" * 301,
    ]
    names = [name_of(clip_id) for clip_id in ids]
    assert len({f"{name}.npy" for name in names}) == len(ids)
    for name in names:
        assert all(part and not part.startswith(".") and len(part.encode()) <= 200 for part in name.split("/"))


def test_silence_of_another_width_or_for_another_format_is_refused(latents: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"silence: .*\[T, 6\], found \[6, 5\]"):
        export_dataset(latents, tmp_path / "out", ExportFormat.STABLE_AUDIO, silence=np.ones((6, 5)))
    with pytest.raises(ConfigError, match=r"silence, details, pad_frames: .*format npy"):
        export_dataset(latents, tmp_path / "out", ExportFormat.NPY, silence=np.ones((5, 6)))
    assert not (tmp_path / "out").exists()


def test_progress_ends_with_all_clips(codes: Dataset, tmp_path: Path) -> None:
    for format in ExportFormat:
        told: list[tuple[int, int]] = []
        export_dataset(codes, tmp_path / format, format, lambda done, total: told.append((done, total)))  # noqa: B023
        assert told[-1] == (10, 10) and told == sorted(told)


@pytest.mark.parametrize(("format", "folder"), [(ExportFormat.NPY, "drums"), (ExportFormat.STABLE_AUDIO, "0")])
@pytest.mark.parametrize("is_temporary", [False, True])
def test_nothing_is_exported_through_a_link(
    codes: Dataset, tmp_path: Path, format: ExportFormat, folder: str, is_temporary: bool
) -> None:
    out, theirs = tmp_path / "out", tmp_path / "theirs"
    export_dataset(codes, out, format)
    place = out / (".solfa_tmp" if is_temporary else folder)
    if place.exists():
        place.rename(tmp_path / "aside")
    theirs.mkdir()
    place.symlink_to(theirs)
    for name in (path for path in out.rglob("*.npy")):
        name.unlink()
    with pytest.raises(StoreError, match="is a link"):
        export_dataset(codes, out, format)
    assert not list(theirs.iterdir())
