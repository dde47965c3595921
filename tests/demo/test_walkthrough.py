"""The demonstration, from nothing to a page, with the codec that it takes by itself and a model if there is one."""

import math
from pathlib import Path

import pytest

from solfa.audio import probe_audio
from solfa.codecs.built_in.release import Release, write_release
from solfa.demo.music import SECONDS, TEXTS, write_music
from solfa.demo.walkthrough import run_demo
from solfa.generate.built_in import model_release as release
from solfa.generate.built_in.model_release import FILES, TINY_MUSIC, files_fingerprint
from tests.generate.tiny_music_model import export_tiny_music


@pytest.mark.slow
def test_the_demo_goes_the_whole_way_and_says_how_close_the_clips_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "ROOT", tmp_path / "built_in")
    exported = export_tiny_music(tmp_path / "exported")
    about = Release(name=TINY_MUSIC, version=1, fingerprint=files_fingerprint(exported))
    write_release(release.ROOT / TINY_MUSIC, about, {name: (exported / name).read_bytes() for name in FILES})
    told: list[str] = []
    result = run_demo(tmp_path / "demo", say=told.append)
    assert result.report.codec == "solfa_24khz:num_codebooks=8"
    assert (result.report.clips, result.report.failed, result.verification.problems) == (13, 1, [])
    assert any("solfa_24khz" in line for line in told)
    assert len(result.scores) == len(list(result.decoded.rglob("*.wav"))) >= 4
    assert all(math.isfinite(score.signal_to_noise_db) and score.mel_distance_db > 0 for score in result.scores)
    page = result.page.read_text(encoding="utf-8")
    assert page.count("Signal to noise") == page.count("mel distance") == 6
    # What the model wrote comes first.
    assert TINY_MUSIC in told[0]
    sounds = [probe_audio(path) for path in result.music]
    assert [sound.num_samples / sound.sample_rate for sound in sounds] == [SECONDS] * 3
    places = [page.index(text) for text in (f"Music that {TINY_MUSIC} wrote", *TEXTS, "Clips to listen to")]
    assert places == sorted(places)


def test_without_a_model_no_music_is_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "ROOT", tmp_path / "built_in")
    told: list[str] = []
    assert write_music(tmp_path / "music", told.append) == ()
    assert not told and not (tmp_path / "music").exists()
