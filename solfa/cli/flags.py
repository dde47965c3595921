"""What is typed: paths, and parameters as flags: `max_failed` in a message becomes --max-failed, `clear=True` --clear.

Only parameters of the running command are translated, and only where the message marks them as such (`solfa.errors`);
file names and everything else stay as they are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from solfa.errors import ConfigError, spelled
from solfa.files.stores.place import Place, is_url, read_place

Command = Any
"""A click command; where Typer keeps click depends on its version."""


def in_flags(sentence: str, command: Command | None) -> str:
    """Replace the parameters that a message names by the flags of the command."""
    parameters = {parameter.name: parameter for parameter in command.params} if command is not None else {}

    def spell(name: str, value: str | None) -> str | None:
        parameter = parameters.get(name)
        if parameter is None:
            return None
        if parameter.param_type_name == "argument":
            return parameter.metavar or name.upper() if value is None else None
        return _flag(parameter, value)

    return spelled(sentence, spell)


def filled_path(text: str) -> Path:
    """Read a path of this machine that was typed; nothing is not the current folder."""
    if not text:
        raise typer.BadParameter("expected a path, found nothing; is a variable unset?")
    place = _read(text)
    if not isinstance(place, Path):
        raise typer.BadParameter(f"{place}: expected a path of this machine here, found the URL of an object store")
    return place


def filled_place(text: str) -> str:
    """Read where a dataset is, as it was typed: a path or the URL of an object store."""
    return str(_read(text) if is_url(text) else filled_path(text))


def _read(text: str) -> Place:
    try:
        return read_place(text)
    except ConfigError as error:  # it is a ValueError, before whose words Typer puts its own
        raise typer.BadParameter(str(error)) from None


def command_of(app: Command, arguments: Sequence[str]) -> Command | None:
    """Find which command was typed; the app's own flags take no values."""
    name = next((word for word in arguments if not word.startswith("-")), None)
    return app.commands.get(name)


def _flag(option: Any, value: str | None) -> str | None:
    # The first long one: others are names that other programs have for it.
    flag: str = next((name for name in option.opts if name.startswith("--")), option.opts[0])
    if value is None or (value == "True" and option.is_flag):
        return flag
    if option.is_flag:
        return option.secondary_opts[0] if value == "False" and option.secondary_opts else None
    return f"{flag} {value}"
