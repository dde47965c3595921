"""`--adapter OTHER=0.5`: which adapters to add to a model, and how much of each."""

import math
from collections.abc import Sequence


def read_adapters(values: Sequence[str]) -> dict[str, float]:
    """Read what was typed; without a factor, all of an adapter's change is wanted."""
    from solfa.errors import ConfigError

    adapters: dict[str, float] = {}
    for text in values:
        name, equals, factor = text.rpartition("=")
        try:
            name, number = (name, float(factor)) if equals else (text, 1.0)
        except ValueError:
            number = math.nan
        if not name or not math.isfinite(number):
            raise ConfigError(f"--adapter: expected SIG=FACTOR with a number such as 0.5, found {text!r}")
        if name in adapters:
            raise ConfigError(f"--adapter: expected each adapter once, found {name} twice; add up its factors")
        adapters[name] = number
    return adapters
