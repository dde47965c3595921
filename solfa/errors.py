"""The faults a user can meet: each is one sentence that says where, what was expected, what was found, what to do.

A sentence names a parameter in backticks, alone or with a value: `max_failed`, `clear=True`. So it is right for whoever
calls Solfa from Python; a command line spells the same sentence with its flags (`spelled`).
"""

import re
from collections.abc import Callable

_PARAMETER = re.compile(r"(?<![\w/.`])`(?P<name>[a-z][a-z0-9_]*)(=(?P<value>[^`]*))?`(?![\w/`])")
"""What stands in backticks as a whole; a path with backticks in it has more around them."""

__all__ = ["AudioError", "ConfigError", "Interrupted", "SolfaError", "StoreError"]


class SolfaError(Exception):
    """Anything that Solfa reports as a sentence instead of a traceback."""


class ConfigError(SolfaError, ValueError):
    """A setting, a path or a combination that the user got wrong."""


class StoreError(SolfaError):
    """A dataset that is not what was asked for, or not what it claims to be."""


class AudioError(SolfaError):
    """Audio that cannot be decoded; of one clip among many it becomes a row with a reason."""


class Interrupted(SolfaError):  # noqa: N818 - nothing is wrong: it ends a command as asked
    """Somebody asked to stop, and there is more to say than that; ends the process with the code of the signal."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def exit_code(error: SolfaError) -> int:
    """Say how a process ends that stops for an error: 2 for bad input, 1 for work that had to stop."""
    if isinstance(error, Interrupted):
        return error.exit_code
    return 2 if isinstance(error, ConfigError | StoreError | AudioError) else 1


def spelled(sentence: str, spell: Callable[[str, str | None], str | None]) -> str:
    """Replace the parameters that a sentence names by what `spell(name, value)` gives; None leaves one as it is."""

    def replaced(found: re.Match[str]) -> str:
        return spell(found["name"], found["value"]) or found[0]

    return _PARAMETER.sub(replaced, sentence)
