"""The benchmark of what networks hear puts every clip through every system once, and compares clip with clip."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from benchmarks.quality.clips import choose_clips, read_table
from benchmarks.quality.competitors import Backwards
from benchmarks.quality.listening import ORIGINAL, RATE, render, summarise


def test_every_system_gets_every_clip_and_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    times = np.arange(2 * 48_000) / 48_000
    lines = ["path,kind,package"]
    for hertz in (200, 300):
        soundfile.write(tmp_path / f"{hertz}.wav", 0.5 * times / 2 * np.sin(2 * np.pi * hertz * times), 48_000)
        lines.append(f"{hertz}.wav,music,tones")
    (tmp_path / "table.csv").write_text("\n".join(lines))
    clips = choose_clips(read_table(tmp_path / "table.csv"), 2, 1, 9.0)

    folders = render([ORIGINAL, Backwards(RATE)], clips, "music", tmp_path / "heard")
    assert list(folders) == ["24 kHz", "backwards, 24 kHz"]
    names = [path.name for path in sorted(folders["24 kHz"].iterdir())]
    assert len(names) == 2
    for name in names:
        (original, rate), (reversed_, _) = (soundfile.read(folder / name) for folder in folders.values())
        assert rate == RATE
        np.testing.assert_allclose(reversed_[::-1], original, atol=2e-3)
        assert np.abs(original[-RATE // 4 :]).max() > 4 * np.abs(original[: RATE // 4]).max()  # it swells

    kept = folders["24 kHz"] / names[0]
    kept.write_bytes(b"kept")
    (folders["24 kHz"] / names[1]).unlink()
    render([ORIGINAL, Backwards(RATE)], clips, "music", tmp_path / "heard")
    assert kept.read_bytes() == b"kept"
    assert (folders["24 kHz"] / names[1]).is_file()
    fewer = render([ORIGINAL, Backwards(RATE)], clips[:1], "music", tmp_path / "heard")
    assert [len(list(folder.iterdir())) for folder in fewer.values()] == [1, 1]


def test_differences_are_between_scores_of_the_same_clip() -> None:
    found = summarise([1.0, 3.0, 5.0], [0.5, 2.0, 5.0])
    assert found["mean"] == 3.0
    assert found["error"] == pytest.approx(2 / 3**0.5)
    assert found["difference"] == pytest.approx(0.5)
    assert found["difference_error"] == pytest.approx(0.5 / 3**0.5)
