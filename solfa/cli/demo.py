"""`solfa demo`: try everything without a network connection or audio of your own."""

from pathlib import Path
from typing import Annotated

import typer

from solfa.codecs.default_name import DEFAULT_CODEC
from solfa.spelling import plural
from solfa.ui.terminal.console import console, print_facts, print_next, visible


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("demo", epilog="[bold]Example[/]\n\n  solfa demo --out solfa-demo")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results; rebuilt every time.")] = Path("solfa-demo"),
    codec: Annotated[str, typer.Option(help="Any codec that `solfa encode` takes.")] = DEFAULT_CODEC,
) -> None:
    """Write music from texts, encode, verify and decode a few recordings, and make a page to listen to it all."""
    from solfa.cli.encode import print_report
    from solfa.demo.walkthrough import run_demo
    from solfa.ui.terminal.encoding_view import EncodeView

    with EncodeView() as view:
        result = run_demo(out, codec, listener=view, say=lambda text: console.print(f"[dim]·[/] {visible(text)}"))
    console.print()
    print_report(result.report)
    console.print()
    scores = [
        (score.id, f"mel distance {score.mel_distance_db:.1f} dB, signal to noise {score.signal_to_noise_db:.1f} dB")
        for score in result.scores
    ]
    print_facts("[bold]decoded[/]", scores)
    console.print()
    problems = result.verification.problems
    found = f"{plural(result.verification.num_clips, 'clip')}, {plural(len(problems), 'problem')}"
    places = [("verified", found), ("audio", str(result.audio)), ("dataset", str(result.dataset))]
    places += [("music", str(path)) for path in result.music]
    places += [("decoded", str(result.decoded)), ("report", f"{result.page} (open it in a browser)")]
    print_facts("[bold]where[/]", places)
    if problems:
        raise typer.Exit(1)
    print_next("solfa encode YOUR_AUDIO/ music.solfa")
