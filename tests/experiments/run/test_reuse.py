"""Whether a dataset stands for some audio, told without a codec."""

from pathlib import Path

import pytest

from solfa.experiments.run.reuse import Differences, codec_fits, compare_recordings, normal_spec

STORED_MULAW = "mulaw:bits=8,sample_rate=16000,num_channels=1"


@pytest.mark.parametrize(
    ("wanted", "stored", "fits"),
    [
        ("mulaw", STORED_MULAW, True),
        ("mulaw:bits=8", STORED_MULAW, True),
        ("mulaw:num_channels=1,bits=8", STORED_MULAW, True),
        ("mulaw:bits=10", STORED_MULAW, False),
        ("mulaw", "mulaw:bits=8,sample_rate=4000,num_channels=1", False),
        ("mulaw:sample_rate=4000", "mulaw:bits=8,sample_rate=4000,num_channels=1", True),
        ("linear", "linear:bits=16,sample_rate=16000,num_channels=1", True),
        ("linear", "linear:bits=8,sample_rate=16000,num_channels=1", False),
        ("encodec_24khz", "encodec_24khz:num_codebooks=32", True),
        ("encodec_24khz:num_codebooks=8", "encodec_24khz:num_codebooks=32", False),
        ("encodec_24khz:num_codebooks=8", "encodec_24khz:num_codebooks=8", True),
        ("encodec_24khz", "encodec_32khz:num_codebooks=4", False),
        ("encodec_24khz", "encodec_24khz:num_codebooks=32,precision=bf16", False),
        ("encodec_24khz:precision=fp32", "encodec_24khz:num_codebooks=32", True),
        ("encodec_24khz:precision=bf16", "encodec_24khz:num_codebooks=32", False),
        ("stable_audio_open", "stable_audio_open:with_scale=false", True),
        ("stable_audio_open:with_scale=False", "stable_audio_open:with_scale=false", True),
        ("stable_audio_open", "stable_audio_open:with_scale=true", False),
        ("/gone/codec", "/gone/codec:num_codebooks=2", True),
        ("/gone/codec", "/other/codec:num_codebooks=2", False),
    ],
)
def test_a_text_fits_a_stored_one_if_what_it_leaves_open_has_its_default(wanted: str, stored: str, fits: bool) -> None:
    assert codec_fits(wanted, stored) is fits


def test_a_relative_path_fits_the_absolute_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "codec").mkdir()
    monkeypatch.chdir(tmp_path)
    assert codec_fits("codec:num_codebooks=2", f"{tmp_path}/codec:num_codebooks=2")
    assert str(normal_spec("./codec:num_codebooks=2")) == f"{tmp_path}/codec:num_codebooks=2"


def test_recordings_are_compared_by_key_size_and_time() -> None:
    planned = {"same": (1, 1), "gone": (1, 1), "resized": (1, 1), "touched": (1, 1), "imported": (0, 0)}
    listed = {"same": (1, 1), "resized": (2, 1), "touched": (1, 2), "imported": (9, 9), "new": (1, 1)}
    assert compare_recordings(listed, planned) == Differences(["new"], ["gone"], ["resized"], ["touched"])
