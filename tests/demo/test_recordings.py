"""The demonstration's recordings as training data: complete or not there, and the same on every machine."""

import shutil
from pathlib import Path

import pytest

import solfa
from solfa.demo import recordings
from solfa.demo.recordings import demo_audio


@pytest.mark.slow
def test_the_recordings_are_made_once_and_their_dataset_is_the_same_wherever_they_are(
    demo_recordings: Path, tmp_path: Path
) -> None:
    first, second = shutil.copytree(demo_recordings, tmp_path / "a" / "demo"), demo_audio(tmp_path / "b")
    codec = solfa.load_codec("mulaw:sample_rate=4000")
    for folder in (first, second):
        assert solfa.encode(folder, folder.with_suffix(".solfa"), codec=codec).failed == 0
    datasets = [solfa.open_dataset(folder.with_suffix(".solfa")) for folder in (first, second)]
    assert datasets[0].digest == datasets[1].digest and len(datasets[0]) == 13
    before = {path: path.stat().st_ctime_ns for path in first.rglob("*")}
    assert demo_audio(first) == first
    assert {path: path.stat().st_ctime_ns for path in first.rglob("*")} == before


def test_an_interrupted_synthesis_leaves_nothing_under_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = recordings.write_demo_clip, []

    def stop_after_two(clip, folder, seed):  # type: ignore[no-untyped-def]
        if len(written) == 2:
            raise KeyboardInterrupt
        written.append(clip)
        real(clip, folder, seed)

    monkeypatch.setattr(recordings, "write_demo_clip", stop_after_two)
    with pytest.raises(KeyboardInterrupt):
        demo_audio(tmp_path / "demo")
    assert not (tmp_path / "demo").exists() and not list((tmp_path / ".tmp").iterdir())
