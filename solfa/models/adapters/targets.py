"""Choose the layers that an adapter changes: patterns over the names of a network's modules."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from solfa.config import nearest
from solfa.errors import ConfigError

USUAL = ("*layers.*", "*blocks.*")
"""Without patterns: what is repeated in a network, under the names that its lists of layers usually have."""
KINDS = (nn.Linear, nn.Conv1d)
"""The layers that can be adapted."""


def choose_targets(network: nn.Module, patterns: Sequence[str] | None) -> list[str]:
    """List the layers whose names match, in the order of the network; a pattern without a match is an error."""
    names = [name for name, module in network.named_modules() if isinstance(module, KINDS)]
    for pattern in patterns or ():
        if not any(_matches(pattern, name) for name in names):
            raise ConfigError(_unmatched(pattern, names))
    wanted = USUAL if patterns is None else patterns
    chosen = [name for name in names if any(_matches(pattern, name) for pattern in wanted)]
    if not chosen:
        there = ", ".join(_shapes_of(names)) or "no linear layer at all"
        raise ConfigError(f"adapter.targets: expected patterns for the names of layers; the network has {there}")
    return chosen


def _matches(pattern: str, name: str) -> bool:
    """Match a whole dotted name, or its end: `qkv` means every `*.qkv`."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*.{pattern}")


def _shapes_of(names: Sequence[str]) -> list[str]:
    """Write names that differ only in their numbers as one pattern."""
    return list(dict.fromkeys(re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name) for name in names))


def _unmatched(pattern: str, names: Sequence[str]) -> str:
    known = _shapes_of(names)
    ends = dict.fromkeys(name.rpartition(".")[2] for name in known)
    hint = nearest(pattern.rpartition(".")[2], ends) or nearest(pattern, known)
    return (
        f"adapter.targets: no layer of the network is called {pattern!r}{hint or ';'} "
        f"it has {', '.join(known) or 'no linear layer at all'}"
    )
