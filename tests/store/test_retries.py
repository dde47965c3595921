"""Failed clips that are tried again: nothing that is committed changes, and the later row counts."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

import solfa
from solfa.encoding.progress import EncodeReport
from solfa.files.crash_points import crash_point
from solfa.store.dataset import open_dataset
from solfa.store.export.dataset_export import export_dataset
from solfa.store.export.format_names import ExportFormat
from solfa.store.retries import retryable
from solfa.store.status import read_status
from solfa.store.verification import verify
from tests.conftest import write_tone

CODEC = "mulaw:sample_rate=8000"


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """Two recordings, one of which is not audio, encoded."""
    write_tone(tmp_path / "audio/good.wav", 0.5, 8000, hz=200.0)
    (tmp_path / "audio/bad.wav").write_text("words")
    report = run(tmp_path, segment_seconds=1.0)
    assert (report.clips, report.failed) == (1, 1)
    return tmp_path


def run(folder: Path, **options) -> EncodeReport:
    return solfa.encode(folder / "audio", folder / "d.solfa", codec=solfa.load_codec(CODEC), **options)


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and ".tmp" not in path.parts}


@pytest.mark.parametrize(("seconds", "ids"), [(0.5, ["bad.wav"]), (1.5, ["bad.wav@00000.000", "bad.wav@00001.000"])])
def test_a_repaired_file_becomes_clips_of_a_new_shard(broken: Path, seconds: float, ids: list[str]) -> None:
    root = broken / "d.solfa"
    before = contents(root)
    write_tone(broken / "audio/bad.wav", seconds, 8000, hz=300.0)
    assert run(broken).failed == 1, "only if asked to"
    assert contents(root) == before
    report = run(broken, retry_failed=True)
    assert (report.clips, report.failed, report.new_clips) == (1 + len(ids), 0, len(ids))
    assert report.failures == [] and report.changed == []
    assert sorted(open_dataset(root).ids()) == [*ids, "good.wav"]
    after = contents(root)
    assert {path: after[path] for path in before} == before, "what was committed stays as it was"
    status = read_status(root)
    assert (status.failed_clips, status.planned_clips, status.is_finished) == (0, 1 + len(ids), True)
    assert verify(root).problems == []
    assert [clip.id for clip in open_dataset(root, manifest=1).failures()] == ["bad.wav"]
    assert run(broken, retry_failed=True).new_clips == 0 and contents(root) == after


def test_what_fails_again_is_not_planned_again(broken: Path) -> None:
    before = contents(broken / "d.solfa")
    (broken / "audio/bad.wav").write_text("other words")
    report = run(broken, retry_failed=True)
    assert report.failed == 1 and contents(broken / "d.solfa") == before


def test_only_the_segments_that_failed_are_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "audio/noise.flac"
    path.parent.mkdir()
    soundfile.write(path, np.random.default_rng(0).uniform(-0.5, 0.5, 32_000), 8000)
    whole = path.read_bytes()
    start = len(whole) * 5 // 8
    path.write_bytes(whole[:start] + bytes(len(whole) // 16) + whole[start + len(whole) // 16 :])
    first = run(tmp_path, segment_seconds=1.0)
    assert first.clips >= 1 and first.failed >= 1
    kept = {clip.id: clip.array.tobytes() for clip in open_dataset(tmp_path / "d.solfa")}
    failed = {clip.id for clip in first.failures}
    assert retryable(tmp_path / "d.solfa") == {"noise.flac": failed}
    path.write_bytes(whole)
    report = run(tmp_path, retry_failed=True)
    assert (report.clips, report.failed, report.new_clips) == (4, 0, len(failed))
    now = {clip.id: clip.array.tobytes() for clip in open_dataset(tmp_path / "d.solfa")}
    assert len(now) == 4 and now.items() >= kept.items()
    assert verify(tmp_path / "d.solfa").problems == []


def test_an_interrupted_retry_goes_on_and_is_planned_once(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tone(broken / "audio/bad.wav", 0.5, 8000, hz=300.0)

    def stop(name: str) -> None:
        if name == "plan:after":
            raise KeyboardInterrupt
        crash_point(name)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("solfa.encoding.frozen_plan.crash_point", stop)
        run(broken, retry_failed=True)
    assert retryable(broken / "d.solfa") == {}
    assert not read_status(broken / "d.solfa").is_finished
    assert run(broken, retry_failed=True).clips == 2
    assert len(list((broken / "d.solfa/plan").iterdir())) == 2


def test_an_export_lists_what_still_fails(broken: Path) -> None:
    (broken / "audio/worse.wav").write_text("words")
    run(broken)
    write_tone(broken / "audio/bad.wav", 0.5, 8000, hz=300.0)
    run(broken, retry_failed=True)
    report = export_dataset(open_dataset(broken / "d.solfa"), broken / "out", ExportFormat.NPY)
    assert (report.num_clips, report.num_failed) == (2, 1)
    lines = (broken / "out/_solfa_failures.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["worse.wav"]
