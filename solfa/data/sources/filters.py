"""Which clips of a dataset to use, by what is known about them.

    where:
      genre: jazz                    # equal to this
      artist: [Ella, Louis]          # one of these
      seconds: {min: 5, max: 60}     # bounds, both inclusive
      id: {glob: "album1/*"}         # a file-name pattern; case matters
      caption: {present: true}       # neither missing nor null nor empty
      id: {unlisted: [valid.txt]}    # in none of these text files, one value per line; `listed` is the opposite

A clip is kept if all conditions hold. If the values of a column are lists, one matching element is enough.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool
from pydantic import BeforeValidator, Discriminator, StrictBool, StrictFloat, StrictInt, StrictStr, Tag, model_validator

from solfa.config import Config
from solfa.data.sources.columns import ClipColumns, some_values
from solfa.errors import ConfigError

Value = StrictBool | StrictInt | StrictFloat | StrictStr | None


Lists = Annotated[tuple[str, ...], BeforeValidator(lambda paths: (paths,) if isinstance(paths, str) else paths)]


class Matching(Config):
    """Bounds, a pattern, and whether there is a value at all; everything that is set must hold."""

    min: float | None = None
    max: float | None = None
    glob: str | None = None
    present: bool | None = None
    listed: Lists | None = None
    """Text files with one value per line; the value must be in one of them."""
    unlisted: Lists | None = None
    """Text files with one value per line; the value must be in none of them."""

    @model_validator(mode="after")
    def _says_something(self) -> "Matching":
        if all(value is None for value in dict(self).values()):
            raise ValueError("expected at least one of min, max, glob, present, listed, unlisted")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"expected min to be at most max, found min {self.min} and max {self.max}")
        return self

    def holds(self, value: Any) -> bool:
        """Tell whether a value fits."""
        if self.present is not None and self.present != _is_present(value):
            return False
        if all(part is None for part in (self.min, self.max, self.glob, self.listed, self.unlisted)):
            return True
        return any(self._fits(element) for element in _elements(value))

    def _fits(self, element: Any) -> bool:
        if self.glob is not None and not (isinstance(element, str) and fnmatchcase(element, self.glob)):
            return False
        if self.listed is not None and not any(element in _lines(path) for path in self.listed):
            return False
        if self.unlisted is not None and any(element in _lines(path) for path in self.unlisted):
            return False
        if self.min is None and self.max is None:
            return True
        if isinstance(element, bool) or not isinstance(element, int | float):
            return False
        return (self.min is None or element >= self.min) and (self.max is None or element <= self.max)


def _tag(condition: Any) -> str:
    if isinstance(condition, Matching | Mapping):
        return "matching"
    return "one_of" if isinstance(condition, list | tuple) else "equal"


Criterion = Annotated[
    Annotated[Matching, Tag("matching")] | Annotated[tuple[Value, ...], Tag("one_of")] | Annotated[Value, Tag("equal")],
    Discriminator(_tag),
]
Where = Mapping[str, Criterion]


def condition_holds(condition: Matching | tuple[Value, ...] | Value, value: Any) -> bool:
    """Tell whether a value of a column meets a condition."""
    if isinstance(condition, Matching):
        return condition.holds(value)
    wanted = condition if isinstance(condition, tuple) else (condition,)
    return any(_equal(element, one) for element in _elements(value) for one in wanted)


def kept_clips(columns: ClipColumns, where: Where) -> Bool[np.ndarray, "clips"]:
    """Find the clips for which every condition holds; it is an error if none is left."""
    kept = np.ones(len(columns), bool)
    for number, (name, condition) in enumerate(where.items(), start=1):
        values = columns.values(name)
        kept &= np.array([condition_holds(condition, value) for value in values], bool)
        if not kept.any():
            tried = " and ".join(repr(tried) for tried in list(where)[:number])
            raise ConfigError(
                f"{columns.path}: where: none of the {len(values)} clips passes the condition on {tried}"
                f"{' together' if number > 1 else ''}; values found in {name!r}: {some_values(values)}; ask for less"
            )
    return kept


@lru_cache(maxsize=16)
def _lines(path: str) -> frozenset[str]:
    """Read the values of a list; a list that changes during a run is not read again."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"where: the list {path} cannot be read: {error.strerror}; check the path") from None
    return frozenset(line.strip() for line in text.splitlines() if line.strip())


def _elements(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_present(value: Any) -> bool:
    return value is not None and value != "" and value != []


def _equal(value: Any, wanted: Value) -> bool:
    # In Python True equals 1, but in metadata `vocals: true` is not `vocals: 1`.
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted
