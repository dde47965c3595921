"""Numbers are written as people read them."""

import pytest

from solfa.spelling import count, duration, plural, short, signed_db, size


@pytest.mark.parametrize(
    ("spell", "number", "expected"),
    [
        (short, -0.0, "0"),
        (short, -7.803, "−7.8"),
        (short, 1234.6, "1,235"),
        (short, 0.00012345, "0.000123"),
        (short, 1e-9, "1e-09"),
        (short, float("nan"), "nan"),
        (duration, 0.5, "0.50 s"),
        (duration, 41.2, "41.2 s"),
        (duration, 125, "2 min 05 s"),
        (duration, 45_600, "12 h 40 min"),
        (duration, 86_400 * 9.5, "9.5 days"),
        (size, 999, "999 bytes"),
        (size, 4_370_000, "4.37 MB"),
        (count, 1_234_567, "1,234,567"),
        (signed_db, -3.14, "−3.1 dB"),
        (signed_db, float("-inf"), "−∞ dB"),
    ],
)
def test_numbers_are_written_as_people_read_them(spell, number, expected):
    assert spell(number) == expected


def test_one_thing_is_singular():
    assert (plural(1, "clip"), plural(2_000, "clip")) == ("1 clip", "2,000 clips")
