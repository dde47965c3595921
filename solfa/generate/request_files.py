"""Read many requests from a file: one caption per line, or a table or JSON lines with a column per condition.

captions.txt      one caption per line
captions.csv      columns `caption` (or `text`), `name`, `seconds`, `seed`; every other column is a condition
captions.jsonl    the same keys
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from solfa.errors import ConfigError
from solfa.files.table_rows import is_table_name, read_rows
from solfa.generate.request import ClipRequest

_TEXTS = ("caption", "text")


def read_requests(path: Path, defaults: ClipRequest) -> list[ClipRequest]:
    """Read requests; missing values come from `defaults`, with seeds counting up from its seed.

    >>> from pathlib import Path
    >>> from solfa.generate import ClipRequest, read_requests
    >>> _ = Path("captions.txt").write_text("a warm piano")
    >>> defaults = ClipRequest("clip", seconds=2.0, seed=7)
    >>> [(request.text, request.seconds, request.seed) for request in read_requests(Path("captions.txt"), defaults)]
    [('a warm piano', 2.0, 7)]
    """
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; expected captions as .txt, .csv or .jsonl")
    requests = [_request(path, number, row, defaults) for number, row in enumerate(_rows(path))]
    if not requests:
        raise ConfigError(f"{path}: expected at least one caption, found none")
    (name, times), *_ = Counter(request.name for request in requests).most_common(1)
    if times > 1:
        raise ConfigError(f"{path}: expected unique names, found {name!r} more than once")
    return requests


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if is_table_name(path.name):
        yield from (row.values for row in read_rows(path))
    elif path.suffix.lower() == ".txt":
        yield from ({"caption": line.strip()} for line in _lines(path) if line.strip())
    else:
        raise ConfigError(f"{path}: expected captions as .txt, .csv or .jsonl, found {path.suffix or 'no extension'}")


def _lines(path: Path) -> list[str]:
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: expected UTF-8, found other bytes at position {error.start}; save it as UTF-8"
        ) from None
    # Not splitlines(): it also splits at characters that captions may contain, such as U+2028.
    return content.replace("\r\n", "\n").split("\n")


def _request(path: Path, number: int, row: Mapping[str, Any], defaults: ClipRequest) -> ClipRequest:
    given = {str(key): value for key, value in row.items() if value not in (None, "")}
    texts = [given.pop(key) for key in _TEXTS if key in given]
    if len(texts) > 1:
        raise ConfigError(f"{path}, row {number + 1}: found both caption and text; keep one")
    seconds, seed = given.pop("seconds", defaults.seconds), given.pop("seed", defaults.seed + number)
    try:
        seconds, seed = float(seconds), int(seed)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"{path}, row {number + 1}: expected numbers for seconds and seed, found {seconds!r} and {seed!r}"
        ) from None
    name = str(given.pop("name", f"{number:04d}"))
    try:
        return ClipRequest(
            name=name,
            seconds=seconds,
            seed=seed,
            text=str(texts[0]) if texts else defaults.text,
            conditions={**defaults.conditions, **given},
            prompt=defaults.prompt,
            prompt_seconds=defaults.prompt_seconds,
        )
    except ConfigError as error:
        # Here they are columns, not parameters.
        raise ConfigError(f"{path}, row {number + 1}: {str(error).replace('`', '')}") from None
