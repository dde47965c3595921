"""The errors a user can run into: each is one sentence that says where, what was expected and found, and what to do.

A message names a parameter in backticks, alone or with a value: `max_failed`, `clear=True`. That is right for callers
from Python; the command line turns the parameters into its flags (`spelled`).
"""

import re
from collections.abc import Callable

_PARAMETER = re.compile(r"(?<![\w/.`])`(?P<name>[a-z][a-z0-9_]*)(=(?P<value>[^`]*))?`(?![\w/`])")
"""A parameter fills its backticks; a path that contains backticks has more text around them."""

_CREDENTIALS = re.compile(r"(\b\w+://)[^/@\s'\"]+@")

__all__ = ["AudioError", "ConfigError", "Interrupted", "SolfaError", "StoreError"]


class SolfaError(Exception):
    """Anything that Solfa reports as a sentence instead of a traceback; it repeats no credentials of a URL."""

    def __init__(self, *args: object) -> None:
        super().__init__(*(_CREDENTIALS.sub(r"\1", value) if isinstance(value, str) else value for value in args))


class ConfigError(SolfaError, ValueError):
    """A setting, a path or a combination that the user got wrong."""


class StoreError(SolfaError):
    """A dataset that is not the one asked for, or is damaged."""


class AudioError(SolfaError):
    """Audio that cannot be decoded; for one clip among many it becomes a row with a reason."""


class Interrupted(SolfaError):  # noqa: N818 - nothing is wrong: it ends a command as asked
    """Somebody asked to stop, and there is something to say about it; the process exits with the signal's code."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def exit_code(error: SolfaError) -> int:
    """Return the exit code for an error: 2 for bad input, 1 for work that had to stop."""
    if isinstance(error, Interrupted):
        return error.exit_code
    return 2 if isinstance(error, ConfigError | StoreError | AudioError) else 1


def spelled(sentence: str, spell: Callable[[str, str | None], str | None]) -> str:
    """Replace the parameters in a message with what `spell(name, value)` returns; None leaves one as it is."""

    def replaced(found: re.Match[str]) -> str:
        return spell(found["name"], found["value"]) or found[0]

    return _PARAMETER.sub(replaced, sentence)
