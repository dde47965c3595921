"""`solfa encode`: audio in, a dataset out."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solfa.codecs.default_name import DEFAULT_CODEC, FOR_FULL_BAND, FOR_STEREO
from solfa.environment.collector import collector_paused
from solfa.spelling import channels, duration, khz, plural, size
from solfa.ui.terminal.console import console, print_facts, print_failures, print_next, visible

if TYPE_CHECKING:
    from solfa.encoding.progress import EncodeReport

EXAMPLES = """
[bold]Examples[/]

  solfa encode audio/ music.solfa

  solfa encode audio/ music.solfa --codec encodec_32khz

  solfa encode musiccaps.csv music.solfa --audio-root clips/ --codec mimi --device cuda

  solfa encode audio/ music.solfa --codec mimi --executor ray --encoder-gpus 0.5

  solfa encode album.wav album.solfa --codec mulaw:bits=8,sample_rate=16000 --segment-seconds 10

If it is killed or interrupted, run the same command again to resume. New files in SOURCE are appended.
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("encode", epilog=EXAMPLES)(encode)


def encode(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder, s3://BUCKET/PATH, an audio file, a CSV, JSONL or AudioCraft manifest, "
            "a stable-audio-tools dataset JSON, or a WebDataset tar.",
        ),
    ],
    dest: Annotated[
        str,
        typer.Argument(
            metavar="DEST", help="The dataset: a new folder or s3://BUCKET/PATH, or an existing one to continue."
        ),
    ],
    codec: Annotated[
        str | None,
        typer.Option(
            help="A name, a checkpoint folder, a Hub id or a model_config.json; options as NAME:key=value.",
            show_default=f"the codec of DEST, or {DEFAULT_CODEC}",
        ),
    ] = None,
    num_codebooks: Annotated[int | None, typer.Option(help="Keep only the first K codebooks.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Weights file, if --codec is a model_config.json.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 or mps.")] = "auto",
    precision: Annotated[
        str | None, typer.Option(help="Run the codec in fp32, fp16 or bf16.", show_default="fp32")
    ] = None,
    try_precision: Annotated[
        str | None,
        typer.Option(
            metavar="PRECISION", help="Write nothing; say how much faster bf16 or fp16 is here, and what it changes."
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="Store as uint16, uint32, float16 or float32.", show_default="the smallest that fits"),
    ] = None,
    segment_seconds: Annotated[
        float | None,
        typer.Option(help="Cut recordings into clips of at most this length; 0 keeps them whole.", show_default="30"),
    ] = None,
    batch_seconds: Annotated[
        float | None,
        typer.Option(
            help="Seconds of audio per codec call; 0: one clip at a time.", show_default="160 on CPU, 120 on CUDA"
        ),
    ] = None,
    num_encoders: Annotated[
        int | None,
        typer.Option(help="Encoder processes, on this machine or in the cluster.", show_default="one per core or GPU"),
    ] = None,
    executor: Annotated[
        str, typer.Option(help="Who runs the encoders: local, or ray for a Ray cluster (`solfa\\[ray]`).")
    ] = "local",
    ray_address: Annotated[
        str | None,
        typer.Option(
            help="With --executor ray: HOST:PORT of the head node.", show_default="RAY_ADDRESS, or that of this machine"
        ),
    ] = None,
    encoder_cpus: Annotated[
        float | None,
        typer.Option(help="With --executor ray: CPUs that each encoder takes.", show_default="1, up to 4 with a GPU"),
    ] = None,
    encoder_gpus: Annotated[
        float | None,
        typer.Option(
            help="With --executor ray: GPUs that each encoder takes, 0.5 for half of one.",
            show_default="1 if there are any",
        ),
    ] = None,
    num_workers: Annotated[
        int | None,
        typer.Option(
            help="Audio decoding processes per encoder; 0: decode in a thread.", show_default="1, or 4 on GPUs"
        ),
    ] = None,
    max_failed: Annotated[
        str | None,
        typer.Option(
            help="Stop if more recordings than this fail, as a count (20) or a share (1%).", show_default="no limit"
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Encode only about this many clips (recordings stay whole).")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try clips that failed earlier again, e.g. after repairing files.")
    ] = False,
    audio_root: Annotated[
        Path | None,
        typer.Option(help="Folder that the paths in a table are relative to; files outside it are refused."),
    ] = None,
    trust_code: Annotated[
        bool,
        typer.Option("--trust-code", "--run-python", help="Run the custom_metadata_module that a dataset JSON names."),
    ] = False,
    fingerprints: Annotated[
        bool,
        typer.Option(
            help="Store what every clip sounds like, 1 kB for 10 s, by which `solfa duplicates` finds copies."
        ),
    ] = True,
) -> None:
    """Encode audio into a Solfa dataset; it can be resumed, and every failure is listed."""
    with collector_paused():
        from solfa.encoding.api import codec_of
        from solfa.encoding.api import encode as run
        from solfa.ui.terminal.encoding_view import EncodeView

    options = {"num_codebooks": num_codebooks, "checkpoint": checkpoint, "precision": precision}
    if try_precision is not None:
        tried = {**options, "precision": None}
        print_trial(source, with_options(codec or codec_of(dest), tried), try_precision)
        return
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
            executor=executor,  # type: ignore[arg-type]
            ray_address=ray_address,
            encoder_cpus=encoder_cpus,
            encoder_gpus=encoder_gpus,
            max_failed=max_failed,
            limit=limit,
            retry_failed=retry_failed,
            audio_root=audio_root,
            trust_code=trust_code,
            fingerprints=fingerprints,
            listener=view,
        )
    print_report(report)
    if report.clips == 0:
        raise typer.Exit(1)
    _say_next(dest, "solver=flow/base " if report.kind == "latents" else "")


def print_trial(source: str, codec: str, precision: str) -> None:
    """Encode a little in fp32 and in another precision, and print how they compare."""
    from solfa.encoding.precision_trial import try_precision

    trial = try_precision(source, codec, precision)  # type: ignore[arg-type]
    facts = [
        ("tried on", f"{plural(trial.clips, 'clip')}, {duration(trial.seconds)}, on the CPU"),
        ("speed", f"{trial.speed:.2f} times that of fp32"),
        ("changed", f"{trial.changed:.1%} of codes or latents"),
        ("decoded", f"{trial.distance_db:.2f} dB from the original, {trial.fp32_distance_db:.2f} dB in fp32"),
    ]
    print_facts(f"[bold]{visible(codec)}[/] in {visible(precision)}", facts)


def _say_next(dest: str, solver: str) -> None:
    """Name the commands that people type after encoding; a language model, which is the default, reads no latents."""
    name = shlex.quote(dest)
    training = f"solfa train {solver}dset.train={name}"
    print_next(f"solfa inspect {name}", f"solfa decode {name} decoded/ --limit 3", training)


def with_options(codec: str, options: Mapping[str, object]) -> str:
    """Add the options that have their own flags to the codec's text."""
    from solfa.codecs.spec import CodecSpec, parse_spec

    given = {name: str(value) for name, value in options.items() if value is not None}
    spec = parse_spec(codec)
    return str(CodecSpec(spec.head, {**spec.options, **given})) if given else codec


def print_report(report: "EncodeReport") -> None:
    """Print what a run did, and anything that needs a closer look."""
    from solfa.store.failed_recordings import counted

    facts = [
        ("clips", f"{report.clips:,}{_of_this_run(report)}"),
        ("audio", duration(report.seconds)),
        ("frames", f"{report.num_frames:,}"),
        ("size", size(report.num_bytes) + (_compression(report) if report.clips else "")),
        ("failed", counted(report.failures)),
        ("speed", _speed(report)),
        *conversions(report),
    ]
    print_facts(f"[bold]{visible(str(report.dataset))}[/] · {visible(report.codec)}", facts)
    print_failures([(failed.name, failed.error) for failed in report.failed_recordings])
    if report.unplaced:
        console.print(
            f"[yellow]{plural(report.unplaced, 'recording')} with imported clips[/] that do not say which part they "
            "are: nothing was added to what was imported; to be sure that all is there, encode into a new dataset",
            soft_wrap=True,
            highlight=False,
        )
    if report.sidecar_faults:
        first = report.sidecar_faults[0]
        console.print(
            f"[yellow]{plural(len(report.sidecar_faults), 'recording')} with a broken file beside the audio[/] "
            f"(first: {visible(first.key)}: {visible(first.fault)}); encoded without what the file says: repair it and "
            "encode into a new dataset",
            soft_wrap=True,
            highlight=False,
        )
    if report.changed:
        console.print(
            f"[yellow]{plural(len(report.changed), 'recording')} changed after encoding[/] "
            f"(first: {visible(report.changed[0])}); the stored clips are unchanged: encode the new versions into "
            "a new dataset",
            soft_wrap=True,
            highlight=False,
        )


def _of_this_run(report: "EncodeReport") -> str:
    if not report.new_clips:
        return ""
    # What failed is no clip, but was tried.
    return f" ({report.new_clips:,} {'tried ' if report.failures else ''}in this run)"


def _compression(report: "EncodeReport") -> str:
    if report.compression < 1:
        return f", {1 / report.compression:.1f}x larger than the audio as 16-bit PCM"
    return f", {report.compression:.1f}x smaller than the audio as 16-bit PCM"


def _speed(report: "EncodeReport") -> str:
    if report.new_seconds:
        return f"{report.speed:.1f}x real time, {report.codec_share:.0%} of it inside the codec"
    if report.new_clips:
        return "nothing new could be encoded"
    if report.unplaced:
        return "nothing to do that is known of"
    return "nothing to do: everything is already encoded"


def conversions(report: "EncodeReport") -> list[tuple[str, str]]:
    """Say which recordings the codec did not get as they are, and which codec would."""
    from solfa.codecs.spec import parse_spec

    facts = []
    if report.resampled:
        rates = [f"{number:,} from {khz(rate)}" for rate, number in sorted(report.resampled.items())]
        total = plural(sum(report.resampled.values()), "recording")
        facts.append(("resampled", f"{total} to {khz(report.sample_rate)}: {', '.join(rates)}"))
    if report.mixed_down:
        facts.append(("mixed down", f"{plural(report.mixed_down, 'recording')} to {channels(report.num_channels)}"))
    if report.new_clips and parse_spec(report.codec).head == DEFAULT_CODEC:
        loses_band = any(rate > report.sample_rate for rate in report.resampled)
        if report.mixed_down or loses_band:
            better = FOR_STEREO if report.mixed_down else FOR_FULL_BAND
            facts.append(("", f"to keep what was there, encode into a new dataset with --codec {better}"))
    return facts
