"""What tells two experiments apart: the values that differ from those of the chosen files."""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from typing import Any


def difference(base: Mapping[str, Any], other: Mapping[str, Any], outer: str = "") -> list[tuple[str, Any]]:
    """List the dotted keys whose value differs between `base` and `other`, in the order Dora lists them.

    Dora's own comparison fails when a single value replaces a group of settings (`optim.ema=null`); here that is a
    difference like any other.
    """
    found: list[tuple[str, Any]] = []
    for key in sorted(base, key=str):
        name = f"{outer}{key}"
        if key not in other:
            found.append((name, None))
        elif isinstance(base[key], Mapping) and isinstance(other[key], Mapping):
            found += difference(base[key], other[key], f"{name}.")
        elif base[key] != other[key]:
            found.append((name, other[key]))
    found += [(f"{outer}{key}", other[key]) for key in sorted(set(other) - set(base), key=str)]
    return found


def is_excluded(way: Sequence[str], patterns: list[str]) -> bool:
    """Say whether a setting, or a group that contains it, does not count towards the signature."""
    names = [".".join(way[:depth]) for depth in range(1, len(way) + 1)]
    return any(fnmatch(name, pattern) for name in names for pattern in patterns)
