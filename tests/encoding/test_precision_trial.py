"""A trial says what fewer bits change, on audio that can be read, and refuses where there is none."""

import numpy as np
import pytest

from solfa.encoding import precision_trial
from solfa.encoding.precision_trial import try_precision
from solfa.errors import ConfigError
from tests.codecs.tiny import make_encodec
from tests.conftest import write_tone


@pytest.fixture(autouse=True)
def bf16_that_runs(monkeypatch):
    monkeypatch.setattr(precision_trial, "probe_bf16", lambda: True)  # which would take seconds in a process of its own


def test_what_changes_is_counted_on_clips_of_one_length(tmp_path):
    for index in range(6):
        write_tone(tmp_path / f"audio/{index}.wav", 0.5 if index == 0 else 1.2, 24_000)
    (tmp_path / "audio/3.wav").write_bytes(b"RIFF")
    trial = try_precision(tmp_path / "audio", str(make_encodec(tmp_path / "codec")), "bf16")
    assert (trial.precision, trial.clips, trial.seconds) == ("bf16", 4, pytest.approx(4.8))
    assert 0 < trial.changed < 1 and trial.speed > 0
    assert np.isfinite([trial.distance_db, trial.fp32_distance_db]).all()
    same = try_precision(tmp_path / "audio", str(tmp_path / "codec"), "fp32")
    assert same.changed == 0 and same.distance_db == same.fp32_distance_db


def test_where_nothing_can_be_tried_it_says_so(tmp_path, monkeypatch):
    write_tone(tmp_path / "audio/short.wav", 0.1, 24_000)
    with pytest.raises(ConfigError, match="at least a second"):
        try_precision(tmp_path / "audio", "solfa_24khz", "fp32")
    monkeypatch.setattr(precision_trial, "probe_bf16", lambda: False)
    with pytest.raises(ConfigError, match="crashed on this processor"):
        try_precision(tmp_path / "audio", "solfa_24khz", "bf16")
