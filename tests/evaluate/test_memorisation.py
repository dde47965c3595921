"""The report of a model says which of its clips are copies of what it was trained on, and which are not."""

import json
import re
from pathlib import Path

import pytest
import soundfile

import solfa
from solfa.audio.sources.choice import open_source
from solfa.data.sources.dset import Dset, Source
from solfa.evaluate.copies import Sounds
from solfa.evaluate.evaluation import ClipScore, Evaluation
from solfa.evaluate.memorisation import with_nearest
from solfa.ui.html.evaluation_page import render_evaluation
from solfa.xp.layout import PREPARED
from tests.ops.test_landmarks import melody

RATE = 16_000


def write_takes(folder: Path, seeds: range, seconds: float, sample_rate: int) -> Path:
    folder.mkdir(parents=True)
    for seed in seeds:
        soundfile.write(folder / f"take{seed}.wav", 0.1 * melody(seconds, sample_rate, seed)[0], sample_rate)
    return folder


def test_copies_are_counted_and_others_named(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path / "cache"))
    codec = solfa.load_codec(f"mulaw:bits=8,sample_rate={RATE}")
    solfa.encode(write_takes(tmp_path / "audio", range(2), 4, RATE), tmp_path / "takes.solfa", codec=codec)
    heard = write_takes(tmp_path / "heard", range(7, 9), 4, RATE)
    soundfile.write(heard / "late.wav", 0.02 * melody(4, RATE, 1)[0, RATE:], RATE)  # the second take from 1 s on
    scores = [ClipScore(name, {"kad": 1.0}, {"faults": []}) for name in ("late.wav", "take7.wav", "take8.wav")]

    def named() -> Evaluation:
        clips = with_nearest(scores, tmp_path, codec, Sounds(open_source(heard)))
        return Evaluation("clips", "real", "mel", "0" * 64, (), clips, (), "kad", 0)

    unknown = named()
    assert "trained on" in caplog.text and "Nearest" not in render_evaluation(unknown, None)
    assert unknown.num_memorised == 0 and unknown.clips == tuple(scores)
    takes = (Source(path=str(tmp_path / "takes.solfa")),)
    dset = Dset(train=takes, valid=takes, hold_out=None)
    (tmp_path / PREPARED).write_text(json.dumps({"start": "", "dset": dset.model_dump(mode="json")}))
    report = named()
    assert [clip.is_memorised for clip in report.clips] == [True, False, False] and report.num_memorised == 1
    nearest = json.loads(json.dumps(report.as_dict(), allow_nan=False))["clips"][0]["nearest"]
    assert nearest["id"] == "take1.wav" and nearest["is_copy"]
    assert nearest["offset_seconds"] == pytest.approx(1, abs=0.05)  # a frame of landmarks takes 48 ms
    page = render_evaluation(report, None)
    rows = re.findall(r"<tr><td>(\S+?)</td><td>(\S+?)</td>.*?<td>(no copy|a copy)</td></tr>", page)
    assert rows[0] == ("late.wav", "take1.wav", "a copy")
    assert [row[2] for row in rows[1:]] == ["no copy"] * 2 and "1 of 3 clips" in page
