"""Whether two texts name one codec, told without loading it."""

from pathlib import Path

import pytest

from solfa.codecs.same_codec import absolute_spec, is_same_codec

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
    assert is_same_codec(wanted, stored) is fits


def test_a_relative_path_fits_the_absolute_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "codec").mkdir()
    monkeypatch.chdir(tmp_path)
    assert is_same_codec("codec:num_codebooks=2", f"{tmp_path}/codec:num_codebooks=2")
    assert str(absolute_spec("./codec:num_codebooks=2")) == f"{tmp_path}/codec:num_codebooks=2"
