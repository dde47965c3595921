"""SHA-256 digests of files and of plain values."""

import hashlib
import json
from pathlib import Path
from typing import Any


def file_sha256(path: str | Path) -> str:
    """Hash a file's content.

    >>> from pathlib import Path
    >>> from solfa.files import file_sha256
    >>> Path("empty").touch()
    >>> file_sha256("empty")[:16]
    'e3b0c44298fc1c14'
    """
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_json(value: Any) -> bytes:
    """Serialise a plain value so that equal values give equal bytes.

    >>> from solfa.files import canonical_json
    >>> canonical_json({"rate": 24000, "name": "é"}) == canonical_json({"name": "é", "rate": 24000})
    True
    """
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode()


def value_sha256(value: Any) -> str:
    """Hash a plain value.

    >>> from solfa.files import value_sha256
    >>> value_sha256({"a": 1, "b": 2}) == value_sha256({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(canonical_json(value)).hexdigest()
