"""Commands between a dataset and other forms: decode to audio, export to and import from other tools' layouts."""

from pathlib import Path
from typing import Annotated

import typer

from solfa.cli.console import console, human_bytes, human_seconds, progress_bar, visible
from solfa.cli.dataset import DatasetArgument


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("decode", epilog="[bold]Example[/]\n\n  solfa decode music.solfa decoded/ --limit 10 --format flac")(
        decode
    )
    app.command("export", epilog="[bold]Example[/]\n\n  solfa export music.solfa pre_encoded/ --format stable-audio")(
        export
    )


def decode(
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A folder for the audio files.")],
    clip: Annotated[list[str] | None, typer.Option(help="Decode this clip; may be given several times.")] = None,
    limit: Annotated[int | None, typer.Option(help="Decode only the first N clips.")] = None,
    format: Annotated[str, typer.Option(help="wav, flac or ogg.")] = "wav",
    codec: Annotated[str | None, typer.Option(help="Decode with this instead of the recorded codec.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
) -> None:
    """Decode clips back to audio files, named after their ids; files that exist are kept."""
    from solfa.codecs.loading import load_codec
    from solfa.encoding.reconstruct import decode_dataset
    from solfa.errors import ConfigError
    from solfa.store.dataset import open_dataset

    if format not in ("wav", "flac", "ogg"):
        raise ConfigError(f"--format: expected wav, flac or ogg, found {format!r}")
    opened = open_dataset(dataset)
    if clip:
        missing = sorted(set(clip) - set(opened.ids()))
        if missing:
            raise ConfigError(f"--clip: {dataset} has no clip {missing[0]!r}; `solfa inspect` shows some of its ids")
        opened = opened.select([opened.index_of(clip_id) for clip_id in clip])
    if limit is not None:
        opened = opened[:limit]
    loaded = load_codec(codec or opened.info.codec, device=device)
    with progress_bar("decoding", "clips") as bar:
        report = decode_dataset(opened, loaded, out, extension=f".{format}", on_clip=bar)
    kept = f", {report.skipped} existed already" if report.skipped else ""
    console.print(f"{report.clips} clips, {human_seconds(report.seconds)} of audio in {visible(str(out))}{kept}")


def export(
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A new or empty folder, or one to continue.")],
    format: Annotated[str, typer.Option(help="stable-audio, musiccaps, npy, webdataset or parquet.")],
    silence: Annotated[
        bool, typer.Option(help="For stable-audio: encode silence.npy too (loads the recorded codec).")
    ] = True,
) -> None:
    """Export a dataset to the layout of another tool; interrupted, the same command continues."""
    from solfa.config import nearest
    from solfa.encoding.silence import encoded_silence
    from solfa.errors import ConfigError
    from solfa.store.dataset import open_dataset
    from solfa.store.export.exporting import export_dataset
    from solfa.store.export.formats import ExportFormat

    names = [choice.value for choice in ExportFormat]
    if format not in names:
        raise ConfigError(f"--format: expected one of {', '.join(names)}, found {format!r}{nearest(format, names)}")
    chosen = ExportFormat(format)
    opened = open_dataset(dataset)
    quiet = encoded_silence(opened) if chosen is ExportFormat.STABLE_AUDIO and silence else None
    with progress_bar("exporting", "clips") as bar:
        report = export_dataset(opened, out, chosen, bar, silence=quiet)
    size = human_bytes(report.num_bytes)
    console.print(f"{report.num_clips} clips, {report.num_files} files, {size} in {visible(str(report.path))}")
    for note in report.notes:
        console.print(f"  [dim]{visible(note)}[/]", soft_wrap=True, highlight=False)
