"""`solfa duplicates` and `solfa fingerprint`: what a dataset contains twice, and what it takes to know."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solfa.cli.dataset import DatasetArgument
from solfa.cli.flags import filled_path, filled_place
from solfa.spelling import plural
from solfa.ui.terminal.console import console, print_failures, print_next, print_table, progress_bar, visible

if TYPE_CHECKING:
    from solfa.data.copies.duplicate_clusters import Duplicates

MOST_SHOWN = 12


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    examples = (
        "solfa duplicates music.solfa",
        "solfa duplicates music.solfa --page copies.html --json copies.json",
        "solfa duplicates test.solfa train.solfa --any-speed",
    )
    app.command("duplicates", epilog="[bold]Examples[/]\n\n  " + "\n\n  ".join(examples))(duplicates)
    app.command("fingerprint", epilog="[bold]Example[/]\n\n  solfa fingerprint music.solfa --source audio/")(
        fingerprint
    )


def duplicates(
    dataset: DatasetArgument,
    other: Annotated[
        str | None,
        typer.Argument(
            metavar="OTHER",
            parser=filled_place,
            help="Another dataset, in which to look for copies of the clips of DATASET.",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=filled_path, help="Write an HTML page to listen to pairs.", show_default="no"
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", parser=filled_path, help="Write everything that was found.", show_default="no"
        ),
    ] = None,
    any_speed: Annotated[
        bool, typer.Option("--any-speed", help="Also find copies up to 3 % faster or slower; takes 13 times as long.")
    ] = False,
    listen: Annotated[int, typer.Option(min=0, help="For the page: how many pairs to listen to.")] = 20,
) -> None:
    """Find clips that sound the same: clusters of copies, each with its offset.

    Exit code 0 if there are none, 1 if there are some.
    """
    from solfa.data.copies.duplicate_clusters import find_duplicates
    from solfa.files.whole_files import replace_atomically
    from solfa.ui.html.duplicates_page import summary, write_duplicates

    with progress_bar("comparing", "clips") as bar:
        found = find_duplicates(dataset, other, any_speed=any_speed, on_clip=bar)
    _print(found)
    console.print(summary(found), soft_wrap=True, highlight=False)
    if json_file is not None:
        content = json.dumps(found.as_json(), indent=1, ensure_ascii=False)
        replace_atomically(json_file, content.encode("utf-8", "backslashreplace"))
    if page is not None:
        read = _decoder(dataset) if found.pairs and listen else None
        write_duplicates(found, page, read, _decoder(other) if read and other else None, listen)
        console.print(f"page: {visible(str(page))} (open it in a browser)", soft_wrap=True, highlight=False)
    if found.pairs:
        raise typer.Exit(1)


def _decoder(place: str) -> Callable[[str], tuple[Any, int]]:
    from solfa.codecs.catalogue import load_codec
    from solfa.encoding.decoded_clips import check_codec
    from solfa.store.dataset import open_dataset

    opened = open_dataset(place, verify="once")
    codec = load_codec(opened.info.codec)
    check_codec(opened, codec)
    return lambda clip_id: (codec.decode(opened[clip_id]).float().cpu().numpy(), codec.sample_rate)


def _print(found: "Duplicates") -> None:
    from rich.table import Table

    from solfa.ui.html.duplicates_page import pair_words

    if not found.pairs:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("clip", "copy", "begins in the copy at", "same for", "landmarks"):
        table.add_column(name)
    for pair in found.pairs[:MOST_SHOWN]:
        table.add_row(visible(pair.id), visible(pair.copy.id), *pair_words(pair)[:3])
    print_table(table)
    if len(found.pairs) > MOST_SHOWN:
        more = plural(len(found.pairs) - MOST_SHOWN, "more pair")
        console.print(f"[dim]and {more}; --json FILE has them all[/]", highlight=False)


def fingerprint(
    dataset: DatasetArgument,
    source: Annotated[str, typer.Option(metavar="SOURCE", help="The audio that the dataset was encoded from.")],
    audio_root: Annotated[
        Path | None, typer.Option(help="The --audio-root it was encoded with, if any.", show_default="none")
    ] = None,
    num_workers: Annotated[int, typer.Option(min=0, help="Processes that read audio; 0: read in a thread.")] = 1,
    trust_code: Annotated[
        bool,
        typer.Option("--trust-code", "--run-python", help="Run the custom_metadata_module that a dataset JSON names."),
    ] = False,
) -> None:
    """Add fingerprints of the content to a dataset that was encoded without them; run it again to resume.

    What is there stays as it is, and `solfa duplicates` can then find copies.
    """
    from solfa.encoding.content_fingerprints import add_fingerprints

    with progress_bar("listening", "shards") as bar:
        report = add_fingerprints(
            dataset, source, audio_root=audio_root, trust_code=trust_code, num_workers=num_workers, on_shard=bar
        )
    if not report.new_shards:
        console.print(f"nothing to do: {plural(report.num_shards, 'shard')} with fingerprints", highlight=False)
        return
    new = f"{plural(report.new_clips, 'clip')} of {plural(report.new_shards, 'shard')}"
    console.print(f"fingerprints of {new} added", highlight=False)
    print_failures([(clip.id, clip.reason) for clip in report.unheard])
    print_next(f"solfa duplicates {dataset}")
