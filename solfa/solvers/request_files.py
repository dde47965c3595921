"""Read many requests from a file: one caption a line, or a table or JSON lines with a column per condition.

captions.txt      one caption a line
captions.csv      columns `caption` (or `text`), `name`, `seconds`, `seed`; every other column is a condition
captions.jsonl    the same keys
"""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from solfa.errors import ConfigError
from solfa.solvers.requests import AudioRequest

_TEXTS = ("caption", "text")


def read_requests(path: Path, defaults: AudioRequest) -> list[AudioRequest]:
    """Read requests; what a line does not say is taken from `defaults`, seeds counted up from its seed."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; expected captions as .txt, .csv or .jsonl")
    requests = [_request(path, number, row, defaults) for number, row in enumerate(_rows(path))]
    if not requests:
        raise ConfigError(f"{path}: expected at least one caption, found none")
    names = [request.name for request in requests]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{path}: expected names that differ, found {twice[0]!r} more than once")
    return requests


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    text = path.read_text("utf-8-sig")
    if path.suffix == ".csv":
        yield from csv.DictReader(text.splitlines())
    elif path.suffix == ".jsonl":
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield _json_object(path, number, line)
    elif path.suffix == ".txt":
        yield from ({"caption": line.strip()} for line in text.splitlines() if line.strip())
    else:
        raise ConfigError(f"{path}: expected captions as .txt, .csv or .jsonl, found {path.suffix or 'no extension'}")


def _json_object(path: Path, number: int, line: str) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{path}, line {number}: expected a JSON object, found {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}, line {number}: expected a JSON object, found {type(value).__name__}")
    return value


def _request(path: Path, number: int, row: Mapping[str, Any], defaults: AudioRequest) -> AudioRequest:
    given = {str(key): value for key, value in row.items() if value not in (None, "")}
    texts = [given.pop(key) for key in _TEXTS if key in given]
    if len(texts) > 1:
        raise ConfigError(f"{path}, row {number + 1}: found both caption and text; keep one")
    seconds, seed = given.pop("seconds", defaults.seconds), given.pop("seed", defaults.seed + number)
    try:
        seconds, seed = float(seconds), int(seed)
    except ValueError:
        raise ConfigError(
            f"{path}, row {number + 1}: expected numbers, found seconds {seconds!r} and seed {seed!r}"
        ) from None
    return AudioRequest(
        name=str(given.pop("name", f"{number:04d}")),
        seconds=seconds,
        seed=seed,
        text=str(texts[0]) if texts else defaults.text,
        attributes={**defaults.attributes, **given},
        prompt=defaults.prompt,
        prompt_seconds=defaults.prompt_seconds,
    )
