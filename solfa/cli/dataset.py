"""Commands that look after an existing dataset: status, verify, gc, inspect."""

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

DatasetArgument = Annotated[Path, typer.Argument(metavar="DATASET", help="A dataset folder made by `solfa encode`.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("status", epilog="[bold]Example[/]\n\n  solfa status music.solfa")(status)
    app.command("verify", epilog="[bold]Example[/]\n\n  solfa verify music.solfa && echo intact")(verify)
    app.command("gc", epilog="[bold]Example[/]\n\n  solfa gc music.solfa --dry-run")(gc)
    app.command("inspect", epilog="[bold]Example[/]\n\n  solfa inspect music.solfa --source audio/ --page music.html")(
        inspect
    )


def status(dataset: DatasetArgument) -> None:
    """Show how complete a dataset is, whether anyone is working on it, and what failed."""
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
        ("working", ", ".join(f"shard {shard:05d}" for shard in found.shards_at_work) or "nobody"),
        ("manifest", str(found.latest_manifest or "none yet")),
        ("fingerprint", found.info.fingerprint[:16]),
    ]
    print_facts(f"[bold]{visible(str(dataset))}[/] · {visible(found.info.codec)}", facts)
    failures = open_dataset(dataset, partial=True).failures() if found.failed_clips else []
    print_failures([(failed.id, failed.error) for failed in failures])
    if failures:
        console.print(
            f"{plural(len(failures), 'failed clip')} can be tried again: repair the files, then run the same "
            "`solfa encode` with --retry-failed",
            soft_wrap=True,
            highlight=False,
        )


def verify(dataset: DatasetArgument) -> None:
    """Check every hash, length, checksum and row against the plan; list the problems and exit 1 if there are any."""
    from solfa.store.verification import verify as run

    with progress_bar("verifying", "shards") as bar:
        result = run(dataset, bar)
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
        console.print(f"[red]{visible(problem.path)}[/]: {visible(problem.message)}", soft_wrap=True, highlight=False)
    console.print(plural(len(result.problems), "problem"))
    raise typer.Exit(1)


def gc(
    dataset: DatasetArgument,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files without removing any.")] = False,
) -> None:
    """Remove what interrupted runs left behind; committed data is never touched."""
    from solfa.store.gc import collect_garbage

    found = collect_garbage(dataset, dry_run=dry_run)
    for path in found:
        console.print(visible(str(path.relative_to(dataset))), highlight=False)
    console.print(f"{plural(len(found), 'file')} {'would be ' if dry_run else ''}removed")


def inspect(
    dataset: DatasetArgument,
    page: Annotated[Path | None, typer.Option(help="Write the HTML page here.", show_default="DATASET.html")] = None,
    clips: Annotated[int, typer.Option(help="How many clips to show and play.")] = 6,
    source: Annotated[
        Path | None, typer.Option(help="The original audio, to listen to next to the decoded clips.")
    ] = None,
    codec: Annotated[
        str | None, typer.Option(help="Decode with this codec instead of the one recorded in the dataset.")
    ] = None,
    decode: Annotated[bool, typer.Option(help="Decode the shown clips so you can listen to them.")] = True,
) -> None:
    """Show statistics about a dataset and write an HTML page with players, spectrograms and histograms."""
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
