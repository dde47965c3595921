"""The demonstration, from nothing to a page, with the codec that it takes by itself."""

import math
from pathlib import Path

import pytest

from solfa.demo.walkthrough import run_demo


@pytest.mark.slow
def test_the_demo_goes_the_whole_way_and_says_how_close_the_clips_are(tmp_path: Path) -> None:
    told: list[str] = []
    result = run_demo(tmp_path / "demo", say=told.append)
    assert result.report.codec == "solfa_24khz:num_codebooks=8"
    assert (result.report.clips, result.report.failed, result.verification.problems) == (13, 1, [])
    assert any("solfa_24khz" in line for line in told)
    assert len(result.scores) == len(list(result.decoded.rglob("*.wav"))) >= 4
    assert all(math.isfinite(score.signal_to_noise_db) and score.mel_distance_db > 0 for score in result.scores)
    page = result.page.read_text(encoding="utf-8")
    assert page.count("Signal to noise") == page.count("mel distance") == 6
