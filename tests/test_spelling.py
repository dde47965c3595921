"""Numbers are written as people read them."""

import math

import pytest

from solfa.spelling import channels, duration, khz, plural, short, signed_db, size


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (-7.803, "−7.8"),
        (1234.5, "1,234"),
        (0.00012345, "0.000123"),
        (1e-9, "1e-09"),
        (math.nan, "nan"),
    ],
)
def test_a_number_keeps_a_few_digits(number: float, written: str) -> None:
    assert short(number) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0.5, "0.50 s"), (41.2, "41.2 s"), (125, "2 min 05 s"), (45_600, "12 h 40 min"), (86_400 * 9.5, "9.5 days")],
)
def test_a_duration_has_the_units_that_fit_it(seconds: float, written: str) -> None:
    assert duration(seconds) == written


@pytest.mark.parametrize(("num_bytes", "written"), [(999, "999 bytes"), (4_370_000, "4.37 MB")])
def test_a_size_is_in_decimal_units(num_bytes: float, written: str) -> None:
    assert size(num_bytes) == written


@pytest.mark.parametrize(("number", "written"), [(1, "1 clip"), (2_000, "2,000 clips"), (0, "0 clips")])
def test_one_is_singular(number: int, written: str) -> None:
    assert plural(number, "clip") == written


@pytest.mark.parametrize(("decibels", "written"), [(-3.14, "−3.1 dB"), (-math.inf, "−∞ dB"), (math.inf, "∞ dB")])
def test_a_level_has_a_true_minus_sign(decibels: float, written: str) -> None:
    assert signed_db(decibels) == written


def test_rates_and_channels_have_their_usual_names() -> None:
    assert [khz(rate) for rate in (8_000, 44_100, 22_050)] == ["8 kHz", "44.1 kHz", "22.05 kHz"]
    assert [channels(number) for number in (1, 2, 6)] == ["mono", "stereo", "6 channels"]
