"""Sentences of the library in the words of the command line: `max_failed` is --max-failed, `clear=True` is --clear.

Only a parameter of the command that runs is spelled anew, and only where the sentence marks it as one (`solfa.errors`):
file names and everything else stay as they are.
"""

from collections.abc import Sequence
from typing import Any

from solfa.errors import spelled

Command = Any
"""A command of click, which Typer brings along under one name or another, depending on its version."""


def in_flags(sentence: str, command: Command | None) -> str:
    """Spell the parameters that a sentence names as one types them behind a command."""
    parameters = {parameter.name: parameter for parameter in command.params} if command is not None else {}

    def spell(name: str, value: str | None) -> str | None:
        parameter = parameters.get(name)
        if parameter is None:
            return None
        if parameter.param_type_name == "argument":
            return parameter.metavar or name.upper() if value is None else None
        return _flag(parameter, value)

    return spelled(sentence, spell)


def command_of(app: Command, arguments: Sequence[str]) -> Command | None:
    """Find which command of an app was typed; the app itself has only flags without values."""
    name = next((word for word in arguments if not word.startswith("-")), None)
    return app.commands.get(name)


def _flag(option: Any, value: str | None) -> str | None:
    flag: str = max(option.opts, key=len)
    if value is None or (value == "True" and option.is_flag):
        return flag
    if option.is_flag:
        return option.secondary_opts[0] if value == "False" and option.secondary_opts else None
    return f"{flag} {value}"
