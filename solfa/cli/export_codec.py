"""`solfa export-codec`: a trained codec as a folder of its own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solfa.spelling import plural, short, size
from solfa.ui.terminal.console import print_facts, visible

if TYPE_CHECKING:
    from solfa.codecs.families.trained import OwnCodec

EXAMPLES = """
[bold]Examples[/]

  solfa export-codec 899630c8 my_codec/

  solfa export-codec 899630c8 small/ --half && solfa encode songs/ songs.solfa --codec small/

The folder holds config.json, model.safetensors and a card (data digest, licences, curve): copy it anywhere, and give it
as --codec. In float32 it gives the very codes that //sig/SIG gives.
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("export-codec", epilog=EXAMPLES)(export_codec)


def export_codec(
    experiment: Annotated[
        str, typer.Argument(metavar="SIG", help="A signature, the beginning of one, //sig/SIG, or a folder.")
    ],
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    half: Annotated[bool, typer.Option("--half", help="Store float16: half the size, slightly other codes.")] = False,
    push: Annotated[
        str | None,
        typer.Option(metavar="USER/NAME", help="Also upload it to the Hugging Face Hub.", show_default="no"),
    ] = None,
) -> None:
    """Write the best weights of a codec that was trained here as a folder that --codec takes."""
    import os

    from solfa.codecs.families.trained import export_codec as export
    from solfa.environment.teams import load_environment
    from solfa.pretrained.push import push_folder, require_token
    from solfa.xp.record import find_experiment

    if push is not None:
        require_token(push)
    folder = find_experiment(load_environment(os.environ).xps_dir, experiment)
    codec = export(folder, directory, half=half)
    num_bytes = (directory / "model.safetensors").stat().st_size
    facts = [
        *_describe(codec),
        ("weights", f"{size(num_bytes)} in {'float16' if half else 'float32'}"),
        ("fingerprint", codec.fingerprint),
    ]
    if push is not None:
        facts.append(("pushed to", push_folder(directory, push)))
    print_facts(f"[bold]{visible(str(directory))}[/] · a codec, to be given as --codec", facts)


def _describe(codec: "OwnCodec") -> list[tuple[str, str]]:
    """Say what the codec makes of which audio."""
    facts = [
        ("audio", f"{codec.sample_rate:,} Hz, {plural(codec.num_channels, 'channel')}"),
        ("frames", f"{short(codec.frame_rate)} a second"),
    ]
    bits_per_second = codec.model.config.bits_per_second
    if bits_per_second is None:
        return [*facts, ("latents", f"{codec.latent_channels} numbers a frame")]
    entries = f"{plural(codec.num_codebooks or 0, 'codebook')} of {codec.codebook_size:,} entries"
    return [*facts, ("codes", f"{entries}, {short(bits_per_second / 1000)} kbit/s")]
