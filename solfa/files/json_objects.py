"""Read JSON objects from outside, and say in a few words what is wrong with them."""

import json
import math
from pathlib import Path
from typing import Any

from solfa.errors import SolfaError

MAX_DEPTH = 100
"""Whatever walks through a value, prints it or writes it again recurses, and Python stops that at about 1,000."""


def parse_object(text: str | bytes) -> dict[str, Any]:
    """Parse one JSON object; ValueError says in a few words what is wrong."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        line = "" if error.lineno == 1 else f"line {error.lineno}, "
        raise ValueError(f"{error.msg} at {line}column {error.colno}") from None
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found {type(value).__name__}")
    if _is_deeper(value, MAX_DEPTH):
        raise ValueError("is nested too deeply")
    return value


def _is_deeper(value: Any, depth: int) -> bool:
    """Say whether containers are nested more than `depth` deep; level by level, because recursion is the danger."""
    level = [value]
    for _ in range(depth + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def read_object(path: Path, fault: type[SolfaError], where: str = "", advice: str = "") -> dict[str, Any]:
    """Read a file that holds one JSON object; anything else raises `fault`, starting with `where` or the path."""
    try:
        return parse_object(path.read_bytes())
    except ValueError as error:
        raise fault(f"{where or path}: not a JSON object ({error}){advice and f'; {advice}'}") from None


def parse_strict(text: str | bytes) -> dict[str, Any]:
    """Parse one JSON object into values that are valid JSON everywhere; ValueError says what is wrong."""
    return {str(key): item for key, item in clean(parse_object(text)).items()}


def clean(value: Any) -> Any:
    """Make a parsed JSON value strict: NaN and infinities become null, halves of surrogate pairs become `?`."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list | tuple):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    return value
