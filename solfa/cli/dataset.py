"""Commands about a dataset that exists: status, verify, gc, inspect."""

from pathlib import Path
from typing import Annotated

import typer

from solfa.spelling import duration, plural, size
from solfa.ui.terminal.console import (
    console,
    print_facts,
    print_failures,
    progress_bar,
    visible,
)

DatasetArgument = Annotated[Path, typer.Argument(metavar="DATASET", help="A folder that `solfa encode` made.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("status", epilog="[bold]Example[/]\n\n  solfa status music.solfa")(status)
    app.command("verify", epilog="[bold]Example[/]\n\n  solfa verify music.solfa && echo intact")(verify)
    app.command("gc", epilog="[bold]Example[/]\n\n  solfa gc music.solfa --dry-run")(gc)
    app.command("inspect", epilog="[bold]Example[/]\n\n  solfa inspect music.solfa --source audio/ --page music.html")(
        inspect
    )


def status(dataset: DatasetArgument) -> None:
    """Show how far a dataset is, whether anybody is at work on it, and what failed."""
    from solfa.store.dataset import open_dataset
    from solfa.store.status import read_status

    found = read_status(dataset)
    state = (
        "finished" if found.is_finished else f"{plural(found.planned_shards - found.committed_shards, 'shard')} missing"
    )
    facts = [
        ("state", state),
        ("shards", f"{found.committed_shards} of {found.planned_shards} committed"),
        ("clips", f"{found.stored_clips:,} stored, {found.failed_clips:,} failed, {found.planned_clips:,} planned"),
        ("audio", duration(found.seconds)),
        ("frames", f"{found.num_frames:,}"),
        ("size", size(found.num_bytes)),
        ("at work", ", ".join(f"shard {shard:05d}" for shard in found.shards_at_work) or "nobody"),
        ("manifest", str(found.latest_manifest or "none yet")),
        ("fingerprint", found.info.fingerprint[:16]),
    ]
    print_facts(f"[bold]{visible(str(dataset))}[/] · {visible(found.info.codec)}", facts)
    failures = open_dataset(dataset, partial=True).failures() if found.failed_clips else []
    print_failures([(failed.id, failed.error) for failed in failures])


def verify(dataset: DatasetArgument) -> None:
    """Check every hash, length, checksum and row against the plan; exit 1 with a list if anything is wrong."""
    from solfa.store.verification import verify as run

    with progress_bar("verifying", "shards") as bar:
        result = run(dataset, bar)
    if result.leftovers:
        console.print(f"{len(result.leftovers)} leftovers of interrupted runs (harmless; `solfa gc` removes them)")
    if not result.problems:
        console.print(
            f"[green]intact[/]: {plural(result.num_clips, 'clip')} in {plural(result.num_shards, 'shard')}, "
            f"{size(result.num_bytes)}"
        )
        return
    for problem in result.problems:
        console.print(f"[red]{visible(problem.path)}[/]: {visible(problem.message)}", soft_wrap=True, highlight=False)
    console.print(plural(len(result.problems), "problem"))
    raise typer.Exit(1)


def gc(
    dataset: DatasetArgument, dry_run: Annotated[bool, typer.Option("--dry-run", help="List, remove nothing.")] = False
) -> None:
    """Remove what interrupted runs left behind; never anything that is committed."""
    from solfa.store.gc import collect_garbage

    found = collect_garbage(dataset, dry_run=dry_run)
    for path in found:
        console.print(visible(str(path.relative_to(dataset))), highlight=False)
    console.print(f"{plural(len(found), 'file')} {'would be ' if dry_run else ''}removed")


def inspect(
    dataset: DatasetArgument,
    page: Annotated[Path | None, typer.Option(help="Where the HTML page goes.", show_default="DATASET.html")] = None,
    clips: Annotated[int, typer.Option(help="How many clips to show and play.")] = 6,
    source: Annotated[Path | None, typer.Option(help="The encoded folder, to hear originals beside them.")] = None,
    codec: Annotated[str | None, typer.Option(help="Decode with this instead of the recorded codec.")] = None,
    decode: Annotated[bool, typer.Option(help="Decode clips, so that they can be heard.")] = True,
) -> None:
    """Show statistics of a dataset, and write a page with players, spectrograms and histograms."""
    from solfa.codecs.catalogue import load_codec
    from solfa.encoding.decoding import check_codec, originals
    from solfa.store.dataset import open_dataset
    from solfa.ui.html.dataset_page import dataset_page
    from solfa.ui.html.report import write_report

    opened = open_dataset(dataset)
    loaded = load_codec(codec or opened.info.codec) if decode else None
    if loaded is not None:
        check_codec(opened, loaded)
    read = originals(source, loaded) if source is not None and loaded is not None else None
    made = dataset_page(opened, loaded, read, num_clips=clips)
    path = page or dataset.absolute().with_name(dataset.absolute().name + ".html")
    write_report(made, path)
    facts = [(fact.name, f"{fact.value} {fact.note}".strip()) for fact in (*made.facts, *made.details)]
    print_facts(f"[bold]{visible(str(dataset))}[/]", [*facts, ("Page", str(path))])
    if made.codes is not None:
        codes = made.codes
        for index, (used, bits, perplexity) in enumerate(
            zip(codes.used_share, codes.entropy_bits, codes.perplexity, strict=True)
        ):
            console.print(
                f"  codebook {index}: {used:.1%} used, {bits:.2f} bits, perplexity {perplexity:.0f}", highlight=False
            )
