"""Commands that convert datasets: decode to audio, export to other tools' layouts, import from them."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solfa.cli.dataset import DatasetArgument
from solfa.cli.encode import with_options
from solfa.cli.flags import filled_path, filled_place
from solfa.spelling import duration, plural, size
from solfa.ui.terminal.console import console, progress_bar, visible

if TYPE_CHECKING:
    from solfa.store.legacy.found_clips import ArrayLayout

MAX_PAD_SECONDS = 3600

IMPORT_EXAMPLES = """
[bold]Examples[/]

  solfa import pre_encoded/ music.solfa --codec stable_audio_open

  solfa import pre_encoded_audio/ caps.solfa --codec encodec_32khz --source musiccaps.csv

  solfa import arrays/ x.solfa --kind codes --codebook-size 1024 --sample-rate 24000 --hop-length 320

Given the codec that made the arrays, `solfa encode` can continue the dataset.
"""


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("decode", epilog="[bold]Example[/]\n\n  solfa decode music.solfa decoded/ --limit 10 --format flac")(
        decode
    )
    app.command("export", epilog="[bold]Example[/]\n\n  solfa export music.solfa pre_encoded/ --format stable-audio")(
        export
    )
    app.command("import", epilog=IMPORT_EXAMPLES)(import_)


def decode(
    dataset: DatasetArgument,
    out: Annotated[Path, typer.Argument(metavar="OUT", parser=filled_path, help="Folder for the audio files.")],
    clip: Annotated[list[str] | None, typer.Option(help="Decode this clip; can be repeated.")] = None,
    limit: Annotated[int | None, typer.Option(help="Decode only the first N clips.")] = None,
    format: Annotated[str, typer.Option(help="wav, flac or ogg.")] = "wav",
    codec: Annotated[
        str | None, typer.Option(help="Decode with this codec instead of the one recorded in the dataset.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps.")] = "cpu",
    whole: Annotated[bool, typer.Option("--whole", help="Join the clips of each recording to one file.")] = False,
) -> None:
    """Decode clips to audio files named after their ids; existing files are kept."""
    from solfa.codecs.catalogue import load_codec
    from solfa.encoding.decoded_clips import decode_dataset
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
        report = decode_dataset(opened, loaded, out, extension=f".{format}", whole=whole, on_clip=bar)
    kept = f", {report.skipped} already there" if report.skipped else ""
    told = plural(report.clips, "recording" if whole else "clip")
    console.print(f"{told}, {duration(report.seconds)} of audio in {visible(str(out))}{kept}")


def export(
    dataset: DatasetArgument,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", parser=filled_path, help="A new or empty folder, or one to continue.")
    ],
    format: Annotated[str, typer.Option(help="stable-audio, musiccaps, npy, webdataset or parquet.")],
    silence: Annotated[
        bool, typer.Option(help="For stable-audio: also write silence.npy (loads the recorded codec).")
    ] = True,
    pad_to_seconds: Annotated[
        float | None,
        typer.Option(help="For stable-audio: fill up shorter clips with encoded silence, so that they can be stacked."),
    ] = None,
) -> None:
    """Export a dataset to another tool's layout; run the same command again to resume."""
    from solfa.config import nearest
    from solfa.encoding.silence import encoded_silence
    from solfa.errors import ConfigError
    from solfa.store.dataset import open_dataset
    from solfa.store.export.dataset_export import export_dataset
    from solfa.store.export.format_names import ExportFormat

    names = [choice.value for choice in ExportFormat]
    if format not in names:
        raise ConfigError(f"--format: expected one of {', '.join(names)}, found {format!r}{nearest(format, names)}")
    chosen = ExportFormat(format)
    opened = open_dataset(dataset)
    pad_frames = _frames_of(pad_to_seconds, chosen is ExportFormat.STABLE_AUDIO, silence, opened.info.array.frame_rate)
    quiet = encoded_silence(opened, pad_frames) if chosen is ExportFormat.STABLE_AUDIO and silence else None
    with progress_bar("exporting", "clips") as bar:
        report = export_dataset(opened, out, chosen, bar, silence=quiet, pad_frames=pad_frames)
    console.print(
        f"{plural(report.num_clips, 'clip')}, {plural(report.num_files, 'file')}, {size(report.num_bytes)} "
        f"in {visible(str(report.path))}"
    )
    for note in report.notes:
        console.print(f"  [dim]{visible(note)}[/]", soft_wrap=True, highlight=False)


def _frames_of(seconds: float | None, is_stable_audio: bool, silence: bool, frame_rate: float) -> int:
    """Count the frames of --pad-to-seconds; 0 pads nothing."""
    from solfa.errors import ConfigError

    if seconds is None:
        return 0
    if not is_stable_audio:
        raise ConfigError("--pad-to-seconds: expected --format stable-audio, the only one that pads; leave it out")
    if not silence:
        raise ConfigError("--pad-to-seconds: clips are filled up with encoded silence; leave --no-silence out")
    if not 0 < seconds <= MAX_PAD_SECONDS:
        raise ConfigError(f"--pad-to-seconds: expected more than 0 and at most {MAX_PAD_SECONDS}, found {seconds:g}")
    return math.ceil(seconds * frame_rate)


def import_(
    legacy: Annotated[
        Path,
        typer.Argument(
            metavar="LEGACY",
            parser=filled_path,
            help="stable-audio-tools output, a MusicCaps folder of npy files, any folder of npy files, or an export.",
        ),
    ],
    dest: Annotated[
        str,
        typer.Argument(
            metavar="DEST",
            parser=filled_place,
            help="The dataset: a new folder, s3://BUCKET/PATH, or one to append to.",
        ),
    ],
    codec: Annotated[str | None, typer.Option(help="The codec that made the arrays.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Weights file, if --codec is a model_config.json.")] = None,
    source: Annotated[
        Path | None, typer.Option(help="The audio the arrays were made from, for ids and captions.")
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="If the shape is ambiguous: frames-first or channels-first.")
    ] = None,
    segment_seconds: Annotated[
        float | None, typer.Option(help="Clip length that `solfa encode` will continue with.", show_default="30")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Without a codec: codes or latents.")] = None,
    sample_rate: Annotated[int | None, typer.Option(help="Without a codec: sample rate in Hz.")] = None,
    hop_length: Annotated[int | None, typer.Option(help="Without a codec: samples per frame.")] = None,
    codebook_size: Annotated[int | None, typer.Option(help="Without a codec: entries per codebook.")] = None,
    leave_out_failed: Annotated[
        bool,
        typer.Option("--leave-out-failed", help="Leave out unreadable arrays, so that `solfa encode` can redo them."),
    ] = False,
    trust_code: Annotated[
        bool,
        typer.Option("--trust-code", "--run-python", help="Run the custom_metadata_module that a dataset JSON names."),
    ] = False,
) -> None:
    """Turn arrays that another tool encoded into a Solfa dataset."""
    from solfa.config import parse_config
    from solfa.encoding.legacy_import import ArrayFacts, import_legacy
    from solfa.errors import ConfigError
    from solfa.ui.terminal.console import print_failures

    given = {"kind": kind, "sample_rate": sample_rate, "hop_length": hop_length, "codebook_size": codebook_size}
    said = {name: value for name, value in given.items() if value is not None}
    if codec is None and checkpoint is not None:
        raise ConfigError("--checkpoint: expected the model_config.json of these weights as --codec, found none")
    with progress_bar("importing", "clips") as bar:
        report = import_legacy(
            legacy,
            dest,
            codec=None if codec is None else with_options(codec, {"checkpoint": checkpoint}),
            facts=parse_config(ArrayFacts, said, "arrays") if said else None,
            layout=_layout(layout),
            source=source,
            segment_seconds=segment_seconds,
            leave_out_failed=leave_out_failed,
            trust_code=trust_code,
            on_clip=bar,
        )
    failed = f", {report.num_failed} failed" if report.num_failed else ""
    told = f"{plural(report.num_clips, 'clip')}{failed}"
    console.print(f"{told} from {visible(report.layout)} in {visible(str(report.dataset))}")
    print_failures([(failure.id, failure.error) for failure in report.failures])
    for note in report.notes:
        console.print(f"  [dim]{visible(note)}[/]", soft_wrap=True, highlight=False)


def _layout(name: str | None) -> "ArrayLayout | None":
    from solfa.errors import ConfigError
    from solfa.store.legacy.found_clips import ArrayLayout

    names = [choice.value for choice in ArrayLayout]
    if name is not None and name not in names:
        raise ConfigError(f"--layout: expected {' or '.join(names)}, found {name!r}")
    return None if name is None else ArrayLayout(name)
