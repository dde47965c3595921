import pytest

from solfa.cli.adapter_option import read_adapters
from solfa.errors import ConfigError


def test_factors_follow_the_name_and_are_one_without() -> None:
    assert read_adapters(["5d0b2a17", "strings=0.5", "a=b/c=-1"]) == {"5d0b2a17": 1.0, "strings": 0.5, "a=b/c": -1.0}


@pytest.mark.parametrize("typed", [["=0.5"], ["a=much"], ["a=nan"], ["a=1", "a=2"], ["a="]])
def test_what_is_no_factor_or_there_twice_is_refused(typed: list[str]) -> None:
    with pytest.raises(ConfigError, match="--adapter"):
        read_adapters(typed)
