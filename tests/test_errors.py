"""How a command ends is decided once, by the error that ended it."""

import pytest

from solfa.errors import AudioError, ConfigError, Interrupted, SolfaError, StoreError, exit_code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("bad"), 2),
        (StoreError("bad"), 2),
        (AudioError("bad"), 2),
        (SolfaError("stopped"), 1),
        (Interrupted("stopped", 143), 143),
    ],
)
def test_bad_input_ends_with_two_a_stop_with_one_and_a_signal_with_its_own(error, code):
    assert exit_code(error) == code


def test_no_sentence_repeats_the_credentials_of_a_url():
    said = str(ConfigError("https://me:hunter22@host/x: expected a path, found 's3://key:hunter22@bucket/y' a@b"))
    assert said == "https://host/x: expected a path, found 's3://bucket/y' a@b"
