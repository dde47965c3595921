"""Goals of the built-in codec: absolute ones by the mean, relative ones on the same clips, and none passed over."""

from pathlib import Path

import pytest

from benchmarks.quality.clips import Clip, Kind, Row
from benchmarks.quality.goals import judge, write_verdicts
from benchmarks.quality.measuring import Measurement
from benchmarks.quality.metrics import Scores
from solfa.errors import ConfigError


def measured(system: str, kind: Kind, number: int, scores: Scores) -> Measurement:
    clip = Clip(Row("held-out", kind, "pack", Path(f"{number}.wav")), 0.0, 1.0)
    return Measurement(clip, system, system.split(" ×")[0], 6.0, 0, scores)


def scores(mel: float, visqol: float = 3.0, sdr: float = 0.0, pesq: float | None = None) -> Scores:
    return Scores(visqol, sdr, mel, pesq, None if pesq is None else 0.95)


MEASURED = [
    *(measured("mine × 8", "music", n, scores(mel, visqol)) for n, mel, visqol in ((0, 3.0, 2.0), (1, 3.4, 3.5))),
    *(measured("mine × 4", "music", n, scores(mel)) for n, mel in ((0, 3.2), (1, 3.3))),
    *(measured("Opus 9", "music", n, scores(5.0, visqol)) for n, visqol in ((0, 2.1), (1, 3.5))),
    measured("mine × 8", "speech", 2, scores(4.0, pesq=2.1)),
    measured("mine × 4", "speech", 2, scores(4.1, pesq=2.0)),
    measured("mine × 8", "effects", 3, scores(4.0, sdr=0.1)),
]


def test_a_goal_is_reached_by_the_mean_or_by_the_mean_difference_on_the_same_clips() -> None:
    found = {(v.goal.kind, v.goal.metric, v.goal.rival): v for v in judge(MEASURED, ["mine"])}
    assert found["music", "mel_db", "Opus 9"].is_reached  # 3.2, of at most 3.3
    assert found["music", "visqol", "Opus 9"].found == pytest.approx(-0.05)
    assert not found["music", "visqol", "Opus 9"].is_reached
    assert found["music", "mel_db", "mine × 4"].found == pytest.approx(-0.05)
    assert found["music", "mel_db", "mine × 4"].is_reached
    assert found["music", "mel_db", "mine × 4"].interval == pytest.approx((-0.2, 0.1))
    assert not found["speech", "pesq", "Opus 9"].is_reached
    assert found["speech", "stoi", "Opus 9"].is_reached
    assert found["effects", "si_sdr_db", "Opus 9"].is_reached
    assert ("effects", "mel_db", "mine × 4") not in found  # nothing to compare with


def test_verdicts_are_written_with_their_intervals(tmp_path: Path) -> None:
    write_verdicts(judge(MEASURED, ["mine"]), tmp_path)
    lines = (tmp_path / "goals.md").read_text().splitlines()
    assert "| mine | Speech, held-out | PESQ | ≥ 2.2 | 2.10 [2.10, 2.10] | missed |" in lines
    assert "| mine | Music, held-out | ViSQOL | better than Opus 9 | -0.05 [-0.10, +0.00] | missed |" in lines


def test_goals_name_the_system_that_is_missing() -> None:
    with pytest.raises(ConfigError, match=r"found no Opus 9; .*--opus 9"):
        judge([m for m in MEASURED if m.system != "Opus 9"], ["mine"])
