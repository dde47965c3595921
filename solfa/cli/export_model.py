"""`solfa export-model`: write a trained model to a self-contained folder, or in a layout that other tools read."""

from pathlib import Path
from typing import Annotated

import typer

from solfa.cli.flags import filled_path
from solfa.ui.terminal.console import console, visible

EXAMPLES = """
[bold]Examples[/]

  solfa export-model 899630c8 piano/ && solfa generate piano/ --text "slow chords" --out chords/

  solfa export-model 899630c8 piano/ --half --push me/piano

  solfa export-model 899630c8 decoder/ --format musicgen

  solfa export-model 899630c8 tuned/ --format musicgen --source facebook/musicgen-small

  solfa export-model 3cadb66d pipeline/ --format diffusers

  solfa export-model 5d0b2a17 strings/ --format adapter

The folder holds the weights, the model's settings, and a card with its data digest, hashes, licences and learning
curve. `solfa generate` and `solfa.load_model` read it from disk or from the Hub. With --format musicgen, a language
model becomes a checkpoint that transformers loads: the decoder alone, or the complete model if --source names the
checkpoint it was tuned from. With --format diffusers, a flow model becomes a folder that StableAudioPipeline or
StableAudio3Pipeline loads. What an adapter learned is merged into the weights; with --format adapter, it is written
alone, as PEFT reads it, with the hash of the weights that it belongs to.
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("export-model", epilog=EXAMPLES)(export_model)


def export_model(
    experiment: Annotated[
        str, typer.Argument(metavar="SIG", help="Signature (or its first characters), //sig/SIG, or experiment folder.")
    ],
    directory: Annotated[Path, typer.Argument(metavar="DIR", parser=filled_path, help="A new folder.")],
    layout: Annotated[str, typer.Option("--format", help="solfa, musicgen, diffusers or adapter.")] = "solfa",
    source: Annotated[
        str | None,
        typer.Option(
            help="With --format musicgen: the checkpoint it was tuned from (a folder or a Hub id).", show_default="none"
        ),
    ] = None,
    half: Annotated[
        bool, typer.Option("--half", help="With --format solfa: store float16, for half the size.")
    ] = False,
    push: Annotated[
        str | None,
        typer.Option(metavar="USER/NAME", help="Also upload it to the Hugging Face Hub.", show_default="no"),
    ] = None,
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="Run the custom solver code this model was trained with.")
    ] = False,
) -> None:
    """Write the best weights of an experiment to a self-contained folder, or as a checkpoint for other tools."""
    from solfa.config import nearest
    from solfa.errors import ConfigError
    from solfa.generate.diffusers_export import export_as_diffusers
    from solfa.generate.export import export_adapter, export_as_musicgen
    from solfa.generate.export import export_model as export
    from solfa.pretrained.push import push_folder, require_token

    known = ("solfa", "musicgen", "diffusers", "adapter")
    if layout not in known:
        raise ConfigError(
            f"--format: expected {', '.join(known[:-1])} or {known[-1]}, found {layout!r}{nearest(layout, known)}"
        )
    if source is not None and layout != "musicgen":
        raise ConfigError("--source: expected --format musicgen with it; add that or leave --source out")
    if half and layout != "solfa":
        raise ConfigError(f"--half: expected --format solfa with it, found {layout}; leave one of them out")
    if push is not None:
        require_token(push)
    if layout == "musicgen":
        written = export_as_musicgen(experiment, directory, source)
    elif layout == "diffusers":
        written = export_as_diffusers(experiment, directory)
    elif layout == "adapter":
        written = export_adapter(experiment, directory)
    else:
        export(experiment, directory, half=half, name=push, trust_code=trust_code)
        written = "use it with solfa generate or solfa.load_model"
    console.print(f"[bold]{visible(str(directory))}[/]: {visible(written)}", soft_wrap=True, highlight=False)
    if push is not None:
        console.print(f"pushed to {visible(push_folder(directory, push))}", soft_wrap=True, highlight=False)
