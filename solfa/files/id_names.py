"""File names for clip ids: one name for each id, safe on every file system, and readable.

An id may hold slashes, percent signs, or any character of a file name. Percent escapes (`solfa.files.printable_names`)
make the name unique and reversible; only ids too long for a file name end in a hash instead.
"""

import hashlib

from solfa.files.printable_names import escape_path

MAX_NAME_BYTES = 200
"""File systems allow 255, with the extension and the name of the temporary file."""

_RESERVED = frozenset('<>:"\\|?*')


def flat_name(clip_id: str) -> str:
    """Name one file for an id: `drums/kick.wav` becomes `drums%2Fkick.wav`."""
    return _shorten(_visible(_escape(clip_id).replace("/", "%2F")))


def tree_name(clip_id: str) -> str:
    """Name a file in a mirror of the ids' folders, which can never leave it: `../x` becomes `%2E./x`."""
    *folders, name = _escape(clip_id).split("/")
    return "/".join([*(_shorten(_folder(folder)) for folder in folders), _shorten(_visible(name))])


def _escape(clip_id: str) -> str:
    return "".join(f"%{ord(letter):02X}" if letter in _RESERVED else letter for letter in escape_path(clip_id))


def _visible(name: str) -> str:
    """Spell out an empty name and a leading dot: neither is a file that people or programs see."""
    if not name:
        return "%"
    return f"%2E{name[1:]}" if name.startswith(".") else name


def _folder(name: str) -> str:
    """Keep a folder apart from the files of an id that ends alike: the id `a` has the file `a.npy`."""
    stem, dot, suffix = _visible(name).rpartition(".")
    return f"{stem}%2E{suffix}" if dot and suffix in ("npy", "json") else _visible(name)


def _shorten(name: str) -> str:
    encoded = name.encode()
    if len(encoded) <= MAX_NAME_BYTES:
        return name
    kept = encoded[: MAX_NAME_BYTES - 20].decode(errors="ignore")
    return f"{kept}~{hashlib.sha256(encoded).hexdigest()[:16]}"
