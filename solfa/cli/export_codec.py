"""`solfa export-codec`: write a trained codec to a self-contained folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solfa.cli.flags import filled_path
from solfa.spelling import plural, short, size
from solfa.ui.terminal.console import print_facts, visible

if TYPE_CHECKING:
    from solfa.codecs.families.trained import OwnCodec

EXAMPLES = """
[bold]Examples[/]

  solfa export-codec 899630c8 my_codec/

  solfa export-codec 899630c8 small/ --half && solfa encode songs/ songs.solfa --codec small/

The folder holds config.json, model.safetensors and a card (data digest, licences, curve) and does not need the
experiment: copy it anywhere and pass it as --codec. In float32 it produces exactly the same codes as //sig/SIG.
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("export-codec", epilog=EXAMPLES)(export_codec)


def export_codec(
    experiment: Annotated[
        str, typer.Argument(metavar="SIG", help="Signature (or its first characters), //sig/SIG, or experiment folder.")
    ],
    directory: Annotated[Path, typer.Argument(metavar="DIR", parser=filled_path, help="A new folder.")],
    half: Annotated[
        bool, typer.Option("--half", help="Store float16: half the size, slightly different codes.")
    ] = False,
    push: Annotated[
        str | None,
        typer.Option(metavar="USER/NAME", help="Also upload it to the Hugging Face Hub.", show_default="no"),
    ] = None,
) -> None:
    """Write the best weights of a trained codec to a folder that --codec accepts."""
    from solfa.codecs.families.trained import export_codec as export
    from solfa.pretrained.push import push_folder, require_token

    if push is not None:
        require_token(push)
    codec = export(experiment, directory, half=half, name=push)
    num_bytes = (directory / "model.safetensors").stat().st_size
    facts = [
        *_describe(codec),
        ("weights", f"{size(num_bytes)} in {'float16' if half else 'float32'}"),
        ("fingerprint", codec.fingerprint),
    ]
    if push is not None:
        facts.append(("pushed to", push_folder(directory, push)))
    print_facts(f"[bold]{visible(str(directory))}[/] · use it with --codec", facts)


def _describe(codec: "OwnCodec") -> list[tuple[str, str]]:
    """Describe the codec: the audio it takes and what it turns it into."""
    facts = [
        ("audio", f"{codec.sample_rate:,} Hz, {plural(codec.num_channels, 'channel')}"),
        ("frames", f"{short(codec.frame_rate)} per second"),
    ]
    bits_per_second = codec.model.config.bits_per_second
    if bits_per_second is None:
        return [*facts, ("latents", f"{codec.latent_channels} numbers per frame")]
    entries = f"{plural(codec.num_codebooks or 0, 'codebook')} of {codec.codebook_size:,} entries"
    return [*facts, ("codes", f"{entries}, {short(bits_per_second / 1000)} kbit/s")]
