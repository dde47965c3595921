"""Importing an export gives the dataset again, whatever the format."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from solfa.encoding.legacy_import import import_legacy
from solfa.errors import ConfigError, StoreError
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.export.dataset_export import export_dataset
from solfa.store.export.format_names import ExportFormat, PartLimits
from solfa.store.plan_file import list_shards, read_shard_plan
from solfa.store.planned_clip import PlannedClip
from solfa.store.verification import verify

SMALL_PARTS = PartLimits(max_clips=4)
FORMATS = list(ExportFormat)


def described(dataset: Dataset) -> list[dict[str, Any]]:
    return [
        {
            "id": clip.id,
            "bytes": (clip.array.dtype.str, clip.array.shape, clip.array.tobytes()),
            "num_samples": clip.num_samples,
            "seconds": clip.seconds,
            "caption": clip.caption,
            "metadata": clip.metadata,
            "scales": None if clip.scales is None else clip.scales.tobytes(),
            "source": clip.source,
        }
        for clip in dataset
    ]


def plan_of(dataset: Dataset) -> dict[str, PlannedClip]:
    shards = list_shards(dataset.path)
    return {clip.id: clip for shard in shards for clip in read_shard_plan(dataset.path, shard)}


def assert_equal(found: Dataset, expected: Dataset) -> None:
    assert described(found) == described(expected)
    assert found.failures() == expected.failures()
    assert found.info == expected.info


@pytest.mark.parametrize("format", FORMATS)
def test_importing_an_export_gives_the_dataset_again(dataset: Dataset, format: ExportFormat, tmp_path: Path) -> None:
    report = export_dataset(dataset, tmp_path / "out", format, limits=SMALL_PARTS)
    imported = import_legacy(tmp_path / "out", tmp_path / "y.solfa")
    assert_equal(open_dataset(tmp_path / "y.solfa"), dataset)
    assert plan_of(open_dataset(tmp_path / "y.solfa")) == plan_of(dataset)
    assert (report.num_clips, report.num_failed) == (imported.num_clips, imported.num_failed) == (10, 2)
    assert imported.fingerprint == dataset.info.fingerprint and imported.notes == ()
    assert verify(tmp_path / "y.solfa").problems == []


@pytest.mark.parametrize("format", FORMATS)
def test_a_shuffled_selection_keeps_its_order(codes: Dataset, format: ExportFormat, tmp_path: Path) -> None:
    chosen = codes.select([7, 0, 9, 3])
    export_dataset(chosen, tmp_path / "out", format)
    import_legacy(tmp_path / "out", tmp_path / "y.solfa")
    assert_equal(open_dataset(tmp_path / "y.solfa"), chosen)


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_selection_round_trips(latents: Dataset, format: ExportFormat, tmp_path: Path) -> None:
    export_dataset(latents[:0], tmp_path / "out", format)
    import_legacy(tmp_path / "out", tmp_path / "y.solfa")
    assert len(open_dataset(tmp_path / "y.solfa")) == 0


def test_importing_twice_changes_nothing(codes: Dataset, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.NPY)
    import_legacy(tmp_path / "out", tmp_path / "y.solfa")
    before = {path: path.read_bytes() for path in (tmp_path / "y.solfa").rglob("*") if path.is_file()}
    again = import_legacy(tmp_path / "out", tmp_path / "y.solfa")
    assert {path: path.read_bytes() for path in (tmp_path / "y.solfa").rglob("*") if path.is_file()} == before
    assert (again.num_clips, again.num_failed) == (0, 0)


@pytest.mark.parametrize("format", [ExportFormat.STABLE_AUDIO, ExportFormat.MUSICCAPS, ExportFormat.NPY])
def test_a_torn_array_of_an_export_becomes_a_failed_clip(codes: Dataset, format: ExportFormat, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", format)
    victim = next(
        path for path in sorted((tmp_path / "out").rglob("*.npy")) if np.load(path).size == codes[4].array.size
    )
    victim.write_bytes(victim.read_bytes()[:-5])
    report = import_legacy(tmp_path / "out", tmp_path / "y.solfa")
    assert (report.num_clips, report.num_failed) == (9, 3)
    failed = next(failure for failure in report.failures if failure.id == codes[4].id)
    assert victim.name in failed.error and "not a readable .npy file" in failed.error


def test_a_caption_that_was_edited_in_an_export_is_the_one_imported(codes: Dataset, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.NPY)
    path = tmp_path / "out" / "-0Gj8-vB1q4.json"
    path.write_text(path.read_text().replace('"a “kick” № 11\\nloud"', '"a snare"'))
    import_legacy(tmp_path / "out", tmp_path / "y.solfa")
    assert open_dataset(tmp_path / "y.solfa")["-0Gj8-vB1q4"].caption == "a snare"


def test_clips_deleted_from_an_export_are_counted(codes: Dataset, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.WEBDATASET, limits=SMALL_PARTS)
    (tmp_path / "out" / "000001.tar").unlink()
    report = import_legacy(tmp_path / "out", tmp_path / "y.solfa")
    (note,) = report.notes
    assert "10 clips" in note and " 6 " in note


def test_settings_that_an_export_fixes_are_refused(codes: Dataset, tmp_path: Path) -> None:
    export_dataset(codes, tmp_path / "out", ExportFormat.NPY)
    with pytest.raises(ConfigError, match="codec, dtype"):
        import_legacy(tmp_path / "out", tmp_path / "y.solfa", codec="mulaw", dtype="uint16")
    assert not (tmp_path / "y.solfa").exists()


@pytest.mark.parametrize("damage", ["truncated.tar", "clips-00000.parquet"])
def test_a_damaged_container_is_one_sentence(codes: Dataset, damage: str, tmp_path: Path) -> None:
    format = ExportFormat.PARQUET if damage.endswith("parquet") else ExportFormat.WEBDATASET
    export_dataset(codes, tmp_path / "out", format)
    path = next(path for path in (tmp_path / "out").iterdir() if path.suffix in (".tar", ".parquet"))
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(StoreError, match="not a readable"):
        import_legacy(tmp_path / "out", tmp_path / "y.solfa")
