"""The settings of runs, by dotted name, and what differs between two."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

ABSENT = "–"


def flat_settings(config: Mapping[str, Any] | None) -> dict[str, str]:
    """Write settings as `optim.epochs` to `50`.

    >>> from solfa.studio.runs.settings_differences import flat_settings
    >>> flat_settings({"optim": {"epochs": 50, "optimizer": {"lr": 0.1}}, "seed": None})
    {'optim.epochs': '50', 'optim.optimizer.lr': '0.1', 'seed': 'null'}
    """
    return dict(_flat(config or {}, ""))


def _flat(values: Mapping[str, Any], outer: str) -> Iterator[tuple[str, str]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{outer}{key}.")
        else:
            yield f"{outer}{key}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def differing(configs: Sequence[Mapping[str, Any] | None]) -> list[tuple[str, list[str]]]:
    """List the settings that are not the same everywhere, with the value of each; a missing one is a dash."""
    flat = [flat_settings(config) for config in configs]
    names = dict.fromkeys(name for settings in flat for name in settings)
    rows = [(name, [settings.get(name, ABSENT) for settings in flat]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]
