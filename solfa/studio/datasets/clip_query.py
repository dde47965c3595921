"""What somebody looks for in a table of clips, as the address of the page says it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Status = Literal["", "ok", "failed"]
PER_PAGE = 50
_WORDS = re.compile(r'"([^"]+)"?|([^\s"]+)')
"""Words, and several that belong together in quotation marks."""


@dataclass(frozen=True)
class ClipQuery:
    """Words, filters and an order; nothing set asks for all clips as they are stored."""

    words: tuple[str, ...] = ()
    """Each of them has to occur, in any case, in the id, the caption or the metadata."""
    status: Status = ""
    min_seconds: float | None = None
    max_seconds: float | None = None
    column: str = ""
    """A key of the metadata."""
    value: str = ""
    """What it has to be: a number, a span of numbers (`80..120`), or a part of a text."""
    sort: str = ""
    """`id`, `seconds`, `caption`, or a key of the metadata as `meta.KEY`; empty for the order of the dataset."""
    is_descending: bool = False
    page: int = 1

    @property
    def is_plain(self) -> bool:
        """Whether every clip is asked for."""
        limits = (self.min_seconds, self.max_seconds)
        return not (self.words or self.status or (self.column and self.value)) and limits == (None, None)


def read_query(parameters: Mapping[str, str]) -> ClipQuery:
    """Read a query from an address; whatever makes no sense there is left out, as somebody may be typing it."""
    status = parameters.get("status", "")
    return ClipQuery(
        words=tuple(quoted or plain for quoted, plain in _WORDS.findall(parameters.get("q", ""))),
        status="ok" if status == "ok" else "failed" if status == "failed" else "",
        min_seconds=as_number(parameters.get("min", "")),
        max_seconds=as_number(parameters.get("max", "")),
        column=parameters.get("column", ""),
        value=parameters.get("value", "").strip(),
        sort=parameters.get("sort", ""),
        is_descending=parameters.get("order") == "down",
        page=max(1, int(as_number(parameters.get("page", "")) or 1)),
    )


def as_number(text: str) -> float | None:
    """Read a finite number; None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e15 else None


def as_span(text: str) -> tuple[float, float] | None:
    """Read `80..120`, `80..`, `..120` or `90` as a span of numbers; None if it is none."""
    low, dots, high = text.partition("..")
    if not dots:
        number = as_number(text)
        return None if number is None else (number, number)
    start = as_number(low) if low.strip() else float("-inf")
    stop = as_number(high) if high.strip() else float("inf")
    return None if start is None or stop is None else (start, stop)
