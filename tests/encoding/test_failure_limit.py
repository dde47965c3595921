"""`max_failed` reads counts and shares, and stops a run that is over it."""

import pytest

from solfa.encoding.failure_limit import FailureLimit
from solfa.errors import ConfigError, SolfaError


@pytest.mark.parametrize(
    ("text", "planned", "allowed"), [("1%", 1000, 10), ("0%", 50, 0), ("3", 10, 3), (7, 10, 7), ("100%", 4, 4)]
)
def test_the_limit_allows_exactly_so_many_failures(text, planned, allowed):
    limit = FailureLimit.parse(text)
    limit.check(allowed, planned)
    with pytest.raises(SolfaError, match=f"`max_failed` .*{allowed} of {planned} recordings.*found {allowed + 1}"):
        limit.check(allowed + 1, planned)


def test_no_limit_never_stops():
    FailureLimit.parse(None).check(10**9, 10**9)


@pytest.mark.parametrize("text", ["", "many", "-1", "101%", "1.5", "%"])
def test_anything_else_is_refused(text):
    with pytest.raises(ConfigError, match="`max_failed`: expected a count"):
        FailureLimit.parse(text)
