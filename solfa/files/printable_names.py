"""Turn any file name into printable text and back.

A file name is bytes. Bytes that are not UTF-8, control characters (including newlines) and the percent sign are
written as %XX, so that the text is safe in logs, Arrow strings and JSON, and maps back to exactly the same bytes.
"""

import os
from pathlib import Path
from urllib.parse import unquote_to_bytes


def escape_path(path: str | os.PathLike[str]) -> str:
    """Write a path as printable UTF-8 text."""
    name = os.fsdecode(path)
    if name.isprintable() and "%" not in name and name.isascii():
        return name
    return "".join(
        character if character.isprintable() and character != "%" else _percent(character) for character in name
    )


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in os.fsencode(character))


def unescape_path(text: str) -> Path:
    """Invert `escape_path`."""
    return Path(os.fsdecode(unquote_to_bytes(text))) if "%" in text else Path(text)
