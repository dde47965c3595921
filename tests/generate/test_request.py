"""Requests that cannot be fulfilled are refused with a sentence, and prompts are read in the form of the codec."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from solfa.errors import AudioError, ConfigError
from solfa.generate.request import ClipRequest, read_prompt


@pytest.fixture
def prompt(tmp_path: Path) -> Path:
    """Half a second of a ramp in two channels, at 8 kHz."""
    ramp = np.linspace(-0.5, 0.5, 4000, dtype=np.float32)
    soundfile.write(tmp_path / "riff.wav", np.stack([ramp, ramp], axis=1), 8000, subtype="FLOAT")
    return tmp_path / "riff.wav"


def request(**changes: Any) -> ClipRequest:
    return ClipRequest(**{"name": "clip", "seconds": 2.0, "seed": 0, **changes})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seconds": 0.0}, "`seconds` above 0, found 0"),
        ({"seconds": -1.0}, "`seconds` above 0, found -1"),
        ({"seconds": float("nan")}, "`seconds` above 0, found nan"),
        ({"seconds": float("inf")}, "`seconds` above 0, found inf"),
        ({"seed": -1}, "`seed` from 0 to 9223372036854775807, found -1"),
        ({"seed": 2**63}, "found 9223372036854775808"),
        ({"prompt": Path("a.wav"), "prompt_seconds": 0.0}, "`prompt_seconds` above 0, found 0"),
        ({"prompt_seconds": 1.0}, "`prompt_seconds` .*found none"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"^clip 'clip': .*{told}"):
        request(**changes)


def test_the_whole_prompt_is_read_in_the_rate_and_channels_of_the_codec(prompt: Path) -> None:
    audio = read_prompt(request(prompt=prompt), 8000, 1)
    np.testing.assert_allclose(audio, np.linspace(-0.5, 0.5, 4000, dtype=np.float32)[None], atol=1e-7)
    assert read_prompt(request(prompt=prompt), 16000, 2).shape == (2, 8000)


@pytest.mark.parametrize(("seconds", "samples"), [(0.25, 2000), (0.5, 4000), (7.0, 4000), (1e-9, 1)])
def test_only_the_beginning_is_read_and_never_more_than_there_is(prompt: Path, seconds: float, samples: int) -> None:
    whole = read_prompt(request(prompt=prompt), 8000, 1)
    audio = read_prompt(request(prompt=prompt, prompt_seconds=seconds), 8000, 1)
    np.testing.assert_array_equal(audio, whole[:, :samples])


@pytest.mark.parametrize(("seconds", "prompt_seconds"), [(0.5, None), (0.4, None), (0.2, 0.3), (0.3, 0.3)])
def test_a_prompt_that_leaves_nothing_to_generate_is_refused(
    prompt: Path, seconds: float, prompt_seconds: float | None
) -> None:
    with pytest.raises(ConfigError, match=r"riff\.wav: .*0\.\d\d s .*prompt_seconds"):
        read_prompt(request(prompt=prompt, seconds=seconds, prompt_seconds=prompt_seconds), 8000, 1)


def test_part_of_a_prompt_longer_than_the_clip_may_be_used(prompt: Path) -> None:
    assert read_prompt(request(prompt=prompt, seconds=0.2, prompt_seconds=0.1), 8000, 1).shape == (1, 800)


@pytest.mark.parametrize(
    ("name", "reason"), [("gone.wav", "no such file"), ("text.wav", "cannot be decoded"), (".", "is a folder")]
)
def test_a_prompt_that_cannot_be_read_is_named_with_the_reason(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no audio")
    with pytest.raises(AudioError, match=f"^{tmp_path / name}: .*{reason}"):
        read_prompt(request(prompt=tmp_path / name), 8000, 1)
