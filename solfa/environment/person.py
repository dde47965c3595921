"""Who the user is and where their files go: name, home and data directory, and paths that refer to them.

Containers and batch jobs often start without USER or HOME, so there is a fallback for each.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from solfa.errors import ConfigError

_VARIABLE = re.compile(
    r"\$\{oc\.env:(?P<resolver>\w+)(?:,(?P<default>[^}]*))?\}|\$\{(?P<braces>\w+)\}|\$(?P<bare>[A-Za-z_]\w*)|(?P<user>\{user\})"
)


def user_name(environ: Mapping[str, str]) -> str:
    """Find the user's name; if neither a variable nor the system knows it, use `uid` and a number."""
    for variable in ("USER", "LOGNAME", "USERNAME"):
        if environ.get(variable):
            return environ[variable]
    return _on_record("pw_name") or (f"uid{os.getuid()}" if hasattr(os, "getuid") else "user")


def home_directory(environ: Mapping[str, str]) -> Path:
    """Find the home directory: HOME, or else the one the system has on record."""
    found = environ.get("HOME") or environ.get("USERPROFILE") or _on_record("pw_dir")
    if not found:
        raise ConfigError("HOME is not set and the system knows no home; set HOME or SOLFA_DORA_DIR to a folder")
    return Path(found)


def _on_record(field: str) -> str | None:
    """Ask the system's user database, which has no entry for a user id that a container made up."""
    if sys.platform == "win32":
        return None
    import pwd

    try:
        return str(getattr(pwd.getpwuid(os.getuid()), field))
    except KeyError:
        return None


def data_directory(environ: Mapping[str, str], system: str) -> Path:
    """Find where applications keep a user's data: XDG_DATA_HOME, or else the system's convention."""
    chosen = environ.get("XDG_DATA_HOME", "")
    if Path(chosen).is_absolute():  # the XDG specification says to ignore relative paths
        return Path(chosen) / "solfa"
    home = home_directory(environ)
    shared = home / "Library" / "Application Support" if system == "Darwin" else home / ".local" / "share"
    return shared / "solfa"


def expand_text(text: str, environ: Mapping[str, str], where: str) -> str:
    """Fill in `~`, `{user}`, `$NAME`, `${NAME}`, `${oc.env:NAME}` and `${oc.env:NAME,default}`.

    `$USER` is known even where the variable is not set; any other variable that is not set is an error.
    """

    def value(match: re.Match[str]) -> str:
        name = match["resolver"] or match["braces"] or match["bare"] or "USER"
        if environ.get(name):
            return environ[name]
        if match["default"] is not None:
            return match["default"].strip()
        if name == "USER":
            return user_name(environ)
        raise ConfigError(f"{where}: {text!r} needs the variable {name}, which is not set")

    filled = _VARIABLE.sub(value, text)
    if filled == "~" or filled.startswith("~/"):
        return str(home_directory(environ)) + filled[1:]
    return filled
