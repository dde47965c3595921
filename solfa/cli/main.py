"""The `solfa` command: its subcommands, and how errors become sentences and exit codes.

Exit codes: 0 done, 1 stopped or found problems, 2 bad input, 128 plus its number for a signal (130: Ctrl-C). An error
that nobody expected is a sentence, too, with its traceback in a log. Commands import what they need when they run, so
`solfa --help` is instant.
"""

import os
import sys
from typing import Any, NoReturn

import typer

from solfa.cli import (
    convert,
    dataset,
    demo,
    doctor,
    duplicates,
    encode,
    evaluate,
    export_codec,
    export_model,
    generate,
    grid,
    info,
    pre_encode,
    rm,
    studio,
    train,
)
from solfa.cli.flags import Command, command_of, in_flags
from solfa.environment.faults import OUT_OF_MEMORY, fault_sentence, note_traceback
from solfa.errors import SolfaError, exit_code
from solfa.ui.terminal.console import errors, visible
from solfa.version import __version__

UsageError: Any = typer.BadParameter.__base__
"""Click's; where Typer keeps click depends on its version."""
INTERRUPTED = 130
ADVICE = {
    "generate": {OUT_OF_MEMORY: "ask for fewer clips at once (--num) or shorter ones (--seconds)"},
    "encode": {OUT_OF_MEMORY: "use fewer processes (--num-encoders) or shorter segments (--segment-seconds)"},
}
"""What helps a command that ran out of memory."""

app = typer.Typer(
    name="solfa",
    help="Encode audio once, as codec tokens or latents, and train audio models on the result.",
    epilog="Start with: solfa demo",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

demo.add_to(app)
encode.add_to(app)
pre_encode.add_to(app)
dataset.add_to(app)
duplicates.add_to(app)
convert.add_to(app)
train.add_to(app)
grid.add_to(app)
generate.add_to(app)
evaluate.add_to(app)
export_model.add_to(app)
export_codec.add_to(app)
studio.add_to(app)
info.add_to(app)
rm.add_to(app)
doctor.add_to(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"solfa {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    """Encode audio once, as codec tokens or latents, and train audio models on the result."""


def main() -> None:
    """Run the command line; an error the user can act on is one sentence."""
    try:
        code = app(standalone_mode=False)
    except SolfaError as error:
        command = command_of(typer.main.get_command(app), sys.argv[1:])
        _leave(in_flags(str(error), command), exit_code(error))
    except UsageError as error:
        if not sys.argv[1:]:  # that is no mistake, and Typer has the help as the message
            error.show()
            sys.exit(error.exit_code)
        _leave(usage_sentence(error, command_of(typer.main.get_command(app), sys.argv[1:])), error.exit_code)
    except typer.Abort as error:
        if error.__cause__ is not None and str(error.__cause__):
            _fail(error.__cause__)  # Typer takes the end of any file for that of the terminal
        _leave("stopped: the question was not answered", 1)
    except BrokenPipeError:
        # Whoever read our output has gone (`solfa status … | head`); nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        _fail(error)
    if code == INTERRUPTED:  # what Typer makes of Ctrl-C
        _leave("interrupted; run the same command to continue", INTERRUPTED)
    sys.exit(code)


def _fail(error: BaseException) -> NoReturn:
    """Leave with what nobody expected."""
    command = command_of(typer.main.get_command(app), sys.argv[1:])
    name = str(command.name) if command is not None else "solfa"
    if not isinstance(error, OSError):  # which says itself what is wrong with which file
        note_traceback(error, os.environ, name)
    _leave(fault_sentence(error, ADVICE.get(name)), 1)


def usage_sentence(error: UsageError, command: Command | None) -> str:
    """Say what was typed wrongly, and where to look it up."""
    said = error.format_message().rstrip(".?").replace(". Did you mean", "; did you mean")
    return f"{said[:1].lower()}{said[1:]}; see {'solfa' if command is None else f'solfa {command.name}'} --help"


def _leave(sentence: str, code: int) -> NoReturn:
    errors.print(f"[red]solfa:[/] {visible(sentence)}", soft_wrap=True, highlight=False)
    sys.exit(code)
