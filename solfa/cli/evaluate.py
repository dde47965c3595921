"""`solfa evaluate`: how good generated or reconstructed audio is, with intervals, a floor and a ceiling."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from solfa.cli.flags import filled_path
from solfa.spelling import plural
from solfa.ui.terminal.console import console, print_failures, print_table, visible

if TYPE_CHECKING:
    from solfa.encoding.progress import Totals
    from solfa.evaluate.evaluation import Evaluation
    from solfa.store.schema import DatasetInfo
    from solfa.ui.terminal.console import Bar

EXAMPLES = """
[bold]Examples[/]

  solfa evaluate generated/ --reference music/

  solfa evaluate 899630c8 --reference music.solfa --num 200 --seconds 10 --metrics kad,kld,bits

  solfa evaluate new/ --reference music/ --against old/

  solfa evaluate music.solfa --reference music/ --metrics si_sdr,mel,visqol

  solfa evaluate generated/ --reference music/ --embedder laion/larger_clap_music --metrics kad,clap

A number alone says little: each comes with how many recordings it is of, an interval, what two halves of the reference
reach (real) and what white noise reaches. To compare two models use --against, never two separate numbers. Embeddings
are computed once and kept in the folder of SOLFA_CACHE_DIR.
"""

_VERDICTS = {"better": "better than", "worse": "worse than", "cannot tell": "no difference that can be told from"}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("evaluate", epilog=EXAMPLES)(evaluate)


def evaluate(
    clips: Annotated[
        str,
        typer.Argument(
            metavar="SIG|FOLDER|DATASET", help="A model that generates, audio files, or a dataset to decode."
        ),
    ],
    reference: Annotated[
        str, typer.Option(metavar="FOLDER|DATASET", help="Real recordings, or a dataset of them.", show_default=False)
    ],
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="kad, fad, fad_infinity, kld, clap, si_sdr, mel, visqol, pesq, stoi, bits; separated by commas.",
            show_default="those that apply",
        ),
    ] = None,
    embedder: Annotated[
        str,
        typer.Option(metavar="NAME|PATH", help="musicnn, mel, clap, mert, or a directory or Hub id of transformers."),
    ] = "musicnn",
    against: Annotated[
        str | None,
        typer.Option(metavar="SIG|FOLDER|DATASET", help="Another set to compare with: is the first one better?"),
    ] = None,
    num_clips: Annotated[int, typer.Option("--num", min=2, help="Clips that a model generates.")] = 64,
    seconds: Annotated[float, typer.Option(min=0.1, help="Length of the clips that a model generates.")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of generated clips and of the intervals.")] = 0,
    out: Annotated[
        Path, typer.Option(metavar="DIR", parser=filled_path, help="Folder for evaluation.html and evaluation.json.")
    ] = Path("evaluation"),
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    num_encoders: Annotated[
        int | None, typer.Option(help="Processes that compute embeddings.", show_default="one per core or GPU")
    ] = None,
    num_workers: Annotated[
        int | None, typer.Option(help="Processes that read audio, for each of those.", show_default="as needed")
    ] = None,
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="Run the custom solver code that a model was trained with.")
    ] = False,
) -> None:
    """Judge audio, generated or decoded, by a reference of real recordings."""
    from solfa.files.free_folder import expect_writable

    expect_writable(out, "choose another `out`")

    from solfa.evaluate.judgement import evaluate as judge
    from solfa.ui.terminal.console import progress_bar

    with progress_bar("evaluating", "clips") as bar:
        report = judge(
            clips,
            reference,
            metrics=None if metrics is None else [name.strip() for name in metrics.split(",") if name.strip()],
            embedder=embedder,
            against=against,
            num_clips=num_clips,
            seconds=seconds,
            seed=seed,
            device=device,
            num_encoders=num_encoders,
            num_workers=num_workers,
            trust_code=trust_code,
            listener=_Embedding(bar),
            on_clip=lambda what, done, total: bar(done, total, what),
        )
    _print(report)
    _write(report, out)


class _Embedding:
    """Shows on a bar how far the embedding of a set is."""

    def __init__(self, bar: "Bar") -> None:
        self._bar = bar

    def settled(self, info: "DatasetInfo", *, is_new: bool) -> None: ...
    def waiting(self) -> None: ...
    def loading(self, encoders: int) -> None: ...

    def listing(self, objects: int) -> None:
        """Show how many objects of a bucket have been listed."""
        self._bar(objects, note="listing")

    def planning(self, recordings: int) -> None:
        """Show how many recordings have been found."""
        self._bar(recordings, note="reading headers")

    def encoding(self, done: "Totals", clips: int, seconds: float) -> None:
        """Show how many recordings are embedded."""
        self._bar(done.clips, clips, "embedding")


def _print(report: "Evaluation") -> None:
    """Print the measures, the comparison, the faults and what fell out."""
    from rich.table import Table

    from solfa.ui.html.evaluation_page import number, sizes, spelled_bits, spelled_interval, spelled_memorised

    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("measure", "value", "95 % interval", "real", "noise", "n"):
        table.add_column(name, style="dim" if name == "n" else None)
    for measure in report.measures:
        interval = spelled_interval(measure.interval)
        value = f"{number(measure.value)} {measure.unit}".strip()
        row = (measure.name, value, interval, number(measure.floor), number(measure.ceiling), sizes(measure))
        table.add_row(*map(visible, row))
    print_table(table)
    told = f"heard by {report.embedder} ({report.embedder_fingerprint[:12]}); n: recordings / of the reference"
    console.print(f"[dim]{visible(told)}[/]", soft_wrap=True, highlight=False)
    for difference in report.differences:
        told = f"{difference.name}: {_VERDICTS[difference.verdict]} {report.against}"
        told += f" (difference {number(difference.value)}, {spelled_interval(difference.interval)})"
        console.print(visible(told), soft_wrap=True, highlight=False)
    if report.bits:
        console.print(visible(spelled_bits(report)), soft_wrap=True, highlight=False)
    if report.num_memorised:
        console.print(f"[yellow]memorised[/]: {spelled_memorised(report)}; the page says which", highlight=False)
    for name, count in report.faults.items():
        console.print(f"[yellow]{name}[/] in {plural(count, 'clip')}", highlight=False)
    print_failures([(fallen.id, fallen.reason) for fallen in report.fell_out])


def _write(report: "Evaluation", out: Path) -> None:
    """Write the JSON and the page."""
    from solfa.audio.sources.choice import open_source
    from solfa.evaluate.copies import Sounds
    from solfa.evaluate.evaluation import JSON_NAME
    from solfa.ui.html.evaluation_page import PAGE_NAME, write_evaluation

    out.mkdir(parents=True, exist_ok=True)
    report.write_json(out / JSON_NAME)
    sounds = None if report.sounds is None else Sounds(open_source(report.sounds)).read
    originals = None if report.reference_sounds is None else Sounds(open_source(report.reference_sounds)).read
    write_evaluation(report, out / PAGE_NAME, sounds, originals)
    console.print(f"page: [bold]{visible(str(out / PAGE_NAME))}[/]", soft_wrap=True, highlight=False)
