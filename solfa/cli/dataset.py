"""Commands that look after an existing dataset: status, verify, gc, inspect."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solfa.cli.flags import filled_place, in_flags
from solfa.spelling import duration, plural, size
from solfa.ui.terminal.console import (
    Bar,
    console,
    print_facts,
    print_failures,
    progress_bar,
    visible,
)

if TYPE_CHECKING:
    from solfa.store.verification import Verification
    from solfa.ui.html.report_data import ReportPage

DatasetArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET", parser=filled_place, help="A dataset made by `solfa encode`: a folder or s3://BUCKET/PATH."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("status", epilog="[bold]Example[/]\n\n  solfa status music.solfa")(status)
    app.command(
        "verify",
        epilog="[bold]Examples[/]\n\n  solfa verify music.solfa && echo intact\n\n"
        "  solfa verify music.solfa --repair --source audio/",
    )(verify)
    app.command("gc", epilog="[bold]Example[/]\n\n  solfa gc music.solfa --dry-run")(gc)
    examples = "solfa inspect music.solfa", "solfa inspect music.solfa --source audio/ --page music.html"
    app.command("inspect", epilog="[bold]Examples[/]\n\n  " + "\n\n  ".join(examples))(inspect)


def status(dataset: DatasetArgument) -> None:
    """Show how complete a dataset is, whether anyone is working on it, and what failed."""
    from solfa.store.dataset import open_dataset
    from solfa.store.failed_recordings import counted, failed_recordings
    from solfa.store.status import read_status

    found = read_status(dataset)
    state = (
        "finished" if found.is_finished else f"{plural(found.planned_shards - found.committed_shards, 'shard')} missing"
    )
    failures = open_dataset(dataset, partial=True).failures() if found.failed_clips else []
    facts = [
        ("state", state),
        ("shards", f"{found.committed_shards} of {found.planned_shards} committed"),
        ("clips", f"{found.stored_clips:,} stored, {found.failed_clips:,} failed, {found.planned_clips:,} planned"),
        ("failed", counted(failures)),
        ("audio", duration(found.seconds)),
        ("frames", f"{found.num_frames:,}"),
        ("size", size(found.num_bytes)),
        ("working", ", ".join(f"shard {shard:05d}" for shard in found.shards_at_work) or "nobody"),
        ("manifest", str(found.latest_manifest or "none yet")),
        ("fingerprint", found.info.fingerprint[:16]),
    ]
    print_facts(f"[bold]{visible(str(dataset))}[/] · {visible(found.info.codec)}", facts)
    print_failures([(failed.name, failed.error) for failed in failed_recordings(failures)])
    if failures:
        console.print(
            f"{plural(len(failures), 'failed clip')} can be tried again: repair the files, then run the same "
            "`solfa encode` with --retry-failed",
            soft_wrap=True,
            highlight=False,
        )


def verify(
    context: typer.Context,
    dataset: DatasetArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="Restore what is damaged or lost, byte for byte, before listing problems.")
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(help="With --repair: the SOURCE it was encoded from, to encode damaged shards again."),
    ] = None,
    audio_root: Annotated[
        Path | None, typer.Option(help="With --repair: the --audio-root it was encoded with, if any.")
    ] = None,
    codec: Annotated[
        str | None,
        typer.Option(help="With --repair: where its codec is now.", show_default="the codec recorded in the dataset"),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(help="With --repair: auto, cpu, cuda, cuda:1 or mps.", show_default="the kind that made it"),
    ] = None,
    trust_code: Annotated[
        bool,
        typer.Option(
            "--trust-code", "--run-python", help="With --repair: run the custom_metadata_module of a dataset JSON."
        ),
    ] = False,
) -> None:
    """Check every hash, length, checksum and row against the plan; list the problems and exit 1 if there are any.

    With --repair, commits and manifests are restored from each other, and damaged shards are encoded again.
    """
    from solfa.errors import ConfigError

    given = {"source": source, "audio_root": audio_root, "codec": codec, "device": device}
    if repair:
        result = _repair(dataset, {**given, "trust_code": trust_code})
    elif any(value is not None for value in given.values()):
        name = next(name for name, value in given.items() if value is not None)
        raise ConfigError(f"`{name}` is for repairing; add `repair=True`")
    else:
        from solfa.store.verification import verify as run

        with progress_bar("verifying", "shards") as bar:
            result = run(dataset, bar)
    from solfa.store.landmark_file import FOLDER

    if result.leftovers:
        files = plural(len(result.leftovers), "file")
        console.print(f"{files} left over from interrupted runs (harmless; `solfa gc` removes them)")
    if not result.problems:
        console.print(
            f"[green]intact[/]: {plural(result.num_clips, 'clip')} in {plural(result.num_shards, 'shard')}, "
            f"{size(result.num_bytes)}"
        )
        return
    for problem in result.problems:
        message = visible(in_flags(problem.message, context.command))
        console.print(f"[red]{visible(problem.path)}[/]: {message}", soft_wrap=True, highlight=False)
    can_repair = not repair and any(not problem.path.startswith(f"{FOLDER}/") for problem in result.problems)
    advice = "; `--repair` puts damaged files in order, with `--source SOURCE` also those of data and meta"
    advice = advice if can_repair else ""
    console.print(f"{plural(len(result.problems), 'problem')}{advice}", soft_wrap=True, highlight=False)
    raise typer.Exit(1)


def _repair(dataset: str, given: Mapping[str, Any]) -> "Verification":
    from solfa.encoding.repair import repair_dataset
    from solfa.ui.terminal.encoding_view import EncodeView

    with EncodeView(Bar("verifying", "shards")) as view:
        report = repair_dataset(dataset, **given, listener=view, on_shard=view.verifying)
    for repaired in report.repairs:
        console.print(f"[green]{visible(repaired.path)}[/]: {visible(repaired.how)}", soft_wrap=True, highlight=False)
    if report.repairs:
        console.print(f"{plural(len(report.repairs), 'file')} repaired")
    return report.verification


def gc(
    dataset: DatasetArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files without removing any.")] = False,
) -> None:
    """Remove what interrupted runs left behind; committed data is never touched."""
    from solfa.store.gc import collect_garbage

    found = collect_garbage(dataset, dry_run=dry_run)
    for key in found:
        console.print(visible(key), highlight=False)
    console.print(f"{plural(len(found), 'file')} {'would be ' if dry_run else ''}removed")


def inspect(
    dataset: DatasetArgument,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Also write an HTML page with players, spectrograms and histograms.", show_default="no"
        ),
    ] = None,
    clips: Annotated[int, typer.Option(help="How many clips to show.")] = 6,
    source: Annotated[
        Path | None, typer.Option(help="For the page: the original audio, to listen to next to the decoded clips.")
    ] = None,
    codec: Annotated[
        str | None,
        typer.Option(help="For the page: decode with this codec instead of the one recorded in the dataset."),
    ] = None,
    decode: Annotated[bool, typer.Option(help="For the page: decode the clips so you can listen to them.")] = True,
) -> None:
    """Show statistics and some clips of a dataset, in the terminal or on a page where you can listen to them."""
    from solfa.codecs.catalogue import load_codec
    from solfa.encoding.decoded_clips import check_codec, originals
    from solfa.errors import ConfigError
    from solfa.store.dataset import open_dataset
    from solfa.ui.html.dataset_page import dataset_page
    from solfa.ui.html.report import write_report

    for name, is_given in (("source", source is not None), ("codec", codec is not None), ("decode=False", not decode)):
        if is_given and page is None:
            raise ConfigError(f"`{name}`: is about the page, and none was asked for; add `page=FILE`")
    opened = open_dataset(dataset, verify="once")
    loaded = load_codec(codec or opened.info.codec) if decode and page is not None else None
    if loaded is not None:
        check_codec(opened, loaded)
    read = originals(source, loaded) if source is not None and loaded is not None else None
    made = dataset_page(opened, loaded, read, num_clips=clips)
    print_page(made)
    if page is not None:
        write_report(made, page)
        console.print(f"page: {visible(str(page))} (open it in a browser)", soft_wrap=True, highlight=False)


def print_page(page: "ReportPage") -> None:
    """Print what a page says in words."""
    facts = [(fact.name, f"{fact.value} {fact.note}".strip()) for fact in (*page.facts, *page.details)]
    print_facts(f"[bold]{visible(page.title)}[/]", facts)
    if page.codes is not None:
        codes = page.codes
        for index, (used, bits, perplexity) in enumerate(
            zip(codes.used_share, codes.entropy_bits, codes.perplexity, strict=True)
        ):
            console.print(
                f"  codebook {index}: {used:.1%} used, {bits:.2f} bits, perplexity {perplexity:.0f}", highlight=False
            )
    if page.cards:
        shown = [(card.id, f"{duration(card.seconds)}  {card.caption or ''}".rstrip()) for card in page.cards]
        print_facts("[bold]some clips[/]", shown)
    print_failures([(failure.id, failure.reason) for failure in page.failures])
