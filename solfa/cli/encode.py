"""`solfa encode`: audio in, a dataset out."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solfa.codecs.default_name import DEFAULT_CODEC
from solfa.spelling import duration, plural, size
from solfa.ui.terminal.console import Bar, console, print_facts, print_failures, visible

if TYPE_CHECKING:
    from solfa.encoding.progress import EncodeReport, Totals

EXAMPLES = """
[bold]Examples[/]

  solfa encode audio/ music.solfa

  solfa encode audio/ music.solfa --codec encodec_32khz

  solfa encode musiccaps.csv music.solfa --audio-root clips/ --codec mimi --device cuda

  solfa encode album.wav album.solfa --codec mulaw:bits=8,sample_rate=16000 --segment-seconds 10

Killed or interrupted, the same command continues. New files in SOURCE are appended.
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("encode", epilog=EXAMPLES)(encode)


def encode(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder, an audio file, a CSV, JSONL or AudioCraft manifest, "
            "a stable-audio-tools dataset JSON, or a WebDataset tar.",
        ),
    ],
    dest: Annotated[Path, typer.Argument(metavar="DEST", help="The dataset: a new folder, or one to continue.")],
    codec: Annotated[
        str | None,
        typer.Option(
            help="A name, a checkpoint folder, a Hub id, or a model_config.json; options: NAME:key=value.",
            show_default=f"that of DEST, or {DEFAULT_CODEC}",
        ),
    ] = None,
    num_codebooks: Annotated[int | None, typer.Option(help="Keep only the first K codebooks.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Weights, when --codec is a model_config.json.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    precision: Annotated[str | None, typer.Option(help="fp32, fp16 or bf16.", show_default="fp32")] = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="Storage: uint16, uint32, float16 or float32.", show_default="smallest"),
    ] = None,
    segment_seconds: Annotated[
        float | None, typer.Option(help="Longest clip; 0 keeps every recording whole.", show_default="30")
    ] = None,
    batch_seconds: Annotated[
        float | None,
        typer.Option(help="Audio per call of the codec; 0 is one clip.", show_default="160 on CPU, 120 on CUDA"),
    ] = None,
    num_encoders: Annotated[
        int | None, typer.Option(help="Encoder processes on this machine.", show_default="one per core or GPU")
    ] = None,
    num_workers: Annotated[
        int | None,
        typer.Option(help="Decoding processes per encoder; 0: a thread.", show_default="1, 4 on GPUs"),
    ] = None,
    max_failed: Annotated[
        str | None, typer.Option(help="Stop when more clips than this fail: 20, or 1%.", show_default="no limit")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Encode about this many clips (whole recordings).")] = None,
    audio_root: Annotated[
        Path | None, typer.Option(help="Where the paths of a table start; files outside are refused.")
    ] = None,
) -> None:
    """Encode audio into a Solfa dataset: resumable, exact, with every failure listed."""
    from solfa.encoding.api import codec_of
    from solfa.encoding.api import encode as run

    options = {"num_codebooks": num_codebooks, "checkpoint": checkpoint, "precision": precision}
    with EncodeView() as view:
        report = run(
            source,
            dest,
            codec=with_options(codec or codec_of(dest), options),
            device=device,
            dtype=dtype,  # type: ignore[arg-type]
            segment_seconds=segment_seconds,
            batch_seconds=batch_seconds,
            num_encoders=num_encoders,
            num_workers=num_workers,
            max_failed=max_failed,
            limit=limit,
            audio_root=audio_root,
            listener=view,
        )
    print_report(report)
    if report.clips == 0:
        raise typer.Exit(1)


def with_options(codec: str, options: Mapping[str, object]) -> str:
    """Write options that have flags of their own into the codec's text."""
    from solfa.codecs.spec import CodecSpec, parse_spec

    given = {name: str(value) for name, value in options.items() if value is not None}
    spec = parse_spec(codec)
    return str(CodecSpec(spec.head, {**spec.options, **given})) if given else codec


class EncodeView:
    """Shows an encoding run on the terminal: clips, audio-seconds per second, failures, time left."""

    def __init__(self) -> None:
        self._bar = Bar("planning", "recordings", has_total=False)
        self._is_encoding = False

    def __enter__(self) -> "EncodeView":
        self._bar.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self._bar.stop()

    def planning(self, recordings: int) -> None:
        """Show how many recordings were looked at."""
        if recordings % 16 == 0:
            self._bar(recordings)

    def loading(self, encoders: int) -> None:
        """Show that encoders start."""
        self._bar.stop()
        self._bar = Bar(f"loading the codec, {plural(encoders, 'encoder')}", "", has_total=False)
        self._bar.start()
        self._is_encoding = False

    def encoding(self, done: "Totals", clips: int, seconds: float) -> None:
        """Show what is done."""
        if not self._is_encoding:
            self._bar.stop()
            self._bar = Bar("encoding", "clips")
            self._bar.start()
            self._is_encoding = True
        rate = done.seconds / elapsed if (elapsed := self._bar.elapsed) > 0.5 else 0.0
        note = f"{rate:.1f}x real time" if rate else ""
        if done.failed:
            note += f", {done.failed} failed"
        self._bar(done.clips, clips, note)


def print_report(report: "EncodeReport") -> None:
    """Print what a run did, and every reason to look closer."""
    facts = [
        ("clips", f"{report.clips:,}" + (f" ({report.new_clips:,} in this run)" if report.new_clips else "")),
        ("audio", duration(report.seconds)),
        ("frames", f"{report.num_frames:,}"),
        ("size", f"{size(report.num_bytes)}, {report.compression:.1f}x smaller than the audio as 16-bit PCM"),
        ("failed", f"{report.failed:,}"),
    ]
    if report.new_clips:
        speed = f"{report.speed:.1f}x real time, {report.codec_share:.0%} of it inside the codec"
        facts.append(("speed", speed))
    else:
        facts.append(("speed", "nothing to do: everything was encoded already"))
    print_facts(f"[bold]{visible(str(report.dataset))}[/] · {visible(report.codec)}", facts)
    print_failures([(failed.id, failed.error) for failed in report.failures])
    if report.changed:
        console.print(
            f"[yellow]{plural(len(report.changed), 'recording')} changed since it was encoded[/], left as it is "
            f"(first: {visible(report.changed[0])}); encode what changed into a new dataset",
            soft_wrap=True,
            highlight=False,
        )
