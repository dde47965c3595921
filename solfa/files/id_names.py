"""File names for clip ids: one name for each id, safe on every file system, and readable.

An id may contain slashes, percent signs, or any character of a file name. Percent escapes
(`solfa.files.printable_names`) make the name unique and reversible; only ids too long for a file name end in a hash.
"""

import hashlib

from solfa.files.printable_names import escape_path

MAX_NAME_BYTES = 200
"""File systems allow 255, including the extension and what a temporary file adds."""

_RESERVED = frozenset('<>:"\\|?*')


def flat_name(clip_id: str) -> str:
    """Turn an id into a flat file name: `drums/kick.wav` becomes `drums%2Fkick.wav`."""
    return _shorten(_visible(_escape(clip_id).replace("/", "%2F")))


def tree_name(clip_id: str) -> str:
    """Turn an id into a path that can never leave its folder: `../x` becomes `%2E./x`."""
    *folders, name = _escape(clip_id).split("/")
    return "/".join([*(_shorten(_folder(folder)) for folder in folders), _shorten(_visible(name))])


def _escape(clip_id: str) -> str:
    return "".join(f"%{ord(letter):02X}" if letter in _RESERVED else letter for letter in escape_path(clip_id))


def _visible(name: str) -> str:
    """Escape an empty name and a leading dot: neither makes a visible file."""
    if not name:
        return "%"
    return f"%2E{name[1:]}" if name.startswith(".") else name


def _folder(name: str) -> str:
    """Rename a folder that would clash with the file of another id: the id `a` has the file `a.npy`."""
    stem, dot, suffix = _visible(name).rpartition(".")
    return f"{stem}%2E{suffix}" if dot and suffix in ("npy", "json") else _visible(name)


def _shorten(name: str) -> str:
    encoded = name.encode()
    if len(encoded) <= MAX_NAME_BYTES:
        return name
    kept = encoded[: MAX_NAME_BYTES - 20].decode(errors="ignore")
    return f"{kept}~{hashlib.sha256(encoded).hexdigest()[:16]}"
