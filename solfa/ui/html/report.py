"""Write a report as a single HTML file that needs nothing else: no network, no scripts, no other files.

Its content security policy forbids scripts and loading, so that nothing in a dataset can make it do anything but show.
"""

from pathlib import Path

from solfa.files.whole_files import replace_atomically
from solfa.spelling import plural
from solfa.ui.html.cards import clip_card, written_card
from solfa.ui.html.charts import code_charts, latent_chart, length_chart, spectrogram_key
from solfa.ui.html.document import html_document
from solfa.ui.html.markup import Markup, element
from solfa.ui.html.report_data import FailureRow, ReportPage
from solfa.ui.html.tables import details_list, facts_list, table
from solfa.version import __version__

POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"

MAX_FAILURES = 200
"""Rows in the table of failures; the dataset itself has all of them."""


def write_report(page: ReportPage, path: Path) -> None:
    """Write a page, replacing an older one atomically."""
    replace_atomically(path, render_report(page).encode("utf-8"))


def render_report(page: ReportPage) -> str:
    """Render a page as HTML."""
    body = element(
        "main",
        element("h1", page.title),
        element("p", page.subtitle, class_="subtitle") if page.subtitle else "",
        _written(page),
        facts_list(page.facts),
        details_list(page.details),
        _clips(page),
        _statistics(page),
        _failures(page.failures),
        element("footer", f"Written by Solfa {__version__}. This page is a single file and loads nothing else."),
    )
    return html_document(page.title, body, POLICY)


def _written(page: ReportPage) -> Markup:
    if not page.written:
        return Markup("")
    return element(
        "section",
        element("h2", f"Music that {page.written_by} wrote"),
        element("p", "Each from its text and a seed, on this machine.", class_="quiet lead"),
        *(written_card(clip) for clip in page.written),
    )


def _clips(page: ReportPage) -> Markup:
    if not page.cards:
        return Markup("")
    heard = any(card.original or card.decoded for card in page.cards)
    return element(
        "section",
        element("h2", "Clips to listen to" if heard else "Clips"),
        spectrogram_key("the original") if heard else "",
        *(clip_card(card) for card in page.cards),
    )


def _statistics(page: ReportPage) -> Markup:
    note = element("p", page.statistics_note, class_="quiet lead") if page.statistics_note else ""
    parts: list[str] = []
    if page.lengths is not None and page.lengths.counts.sum():
        parts += [element("h2", "Clip lengths"), length_chart(page.lengths)]
    if page.codes is not None and page.codes.num_codebooks:
        parts += [element("h2", "Codebook usage"), note, code_charts(page.codes)]
    if page.latents is not None and page.latents.num_channels:
        parts += [element("h2", "Latent channels"), note, latent_chart(page.latents)]
    return element("section", *parts) if parts else Markup("")


def _failures(failures: tuple[FailureRow, ...]) -> Markup:
    if not failures:
        return Markup("")
    shown = failures[:MAX_FAILURES]
    rest = f"and {plural(len(failures) - len(shown), 'more recording')}; the dataset lists them all."
    return element(
        "section",
        element("h2", f"Failed to encode: {plural(len(failures), 'recording')}", class_="alarm"),
        table(("Clip", "Reason"), shown),
        element("p", rest, class_="quiet") if len(failures) > len(shown) else "",
    )
