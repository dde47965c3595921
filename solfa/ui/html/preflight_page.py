"""The page about a run before it runs: what the network sees and hears, what its loss should be, what the run takes.

It is a single file with its audio inside, runs no scripts and loads nothing.
"""

from dataclasses import dataclass

import numpy as np

from solfa.evaluate.statistics import CodeStatistics, LatentStatistics
from solfa.solvers.plan.rehearsal import Rehearsal, SeenRow
from solfa.spelling import count, duration, plural, size
from solfa.ui.html.cards import array_figure, sounds_side_by_side
from solfa.ui.html.charts import bars, code_charts, latent_chart, spectrogram_key
from solfa.ui.html.document import html_document
from solfa.ui.html.markup import Markup, element
from solfa.ui.html.report import POLICY
from solfa.ui.html.report_data import Fact, Sound
from solfa.ui.html.tables import details_list, facts_list, table
from solfa.version import __version__


@dataclass(frozen=True)
class PreflightPage:
    """What the page shows."""

    signature: str
    plan: tuple[tuple[str, str], ...]
    rehearsal: Rehearsal
    sounds: tuple[Sound, ...]
    """The first rows, decoded."""
    codebook_size: int | None
    latents: LatentStatistics | None
    codes: CodeStatistics | None


def render_preflight(page: PreflightPage) -> str:
    """Render the page as HTML."""
    rehearsal = page.rehearsal
    title = f"Before {page.signature} runs"
    body = element(
        "main",
        element("h1", title),
        element("p", f"{rehearsal.verdict[0].upper()}{rehearsal.verdict[1:]}.", class_="subtitle"),
        facts_list(_facts(rehearsal)),
        details_list([Fact(name, value) for name, value in page.plan]),
        _losses(rehearsal),
        _rows(page),
        _statistics(page),
        element("footer", f"Written by Solfa {__version__}. This page is a single file and loads nothing else."),
    )
    return html_document(title, body, POLICY)


def _facts(rehearsal: Rehearsal) -> list[Fact]:
    facts = [
        Fact("all updates", duration(rehearsal.seconds), f"{count(rehearsal.num_updates)} updates, measured"),
        Fact("memory", size(rehearsal.peak_bytes), "the most it used while it rehearsed"),
        Fact("rows", str(len(rehearsal.rows)), "in the first batch"),
    ]
    if rehearsal.untrained is not None:
        facts.insert(0, Fact("untrained loss", f"{rehearsal.untrained:.4g}", "of the first batch"))
    if rehearsal.start is not None:
        facts.insert(0, Fact("loss at the start", f"{rehearsal.start:.4g}", "with the weights of continue_from"))
    return facts


def _losses(rehearsal: Rehearsal) -> Markup:
    rows = [(f"{loss.value:.4g}", loss.whose) for loss in rehearsal.expected]
    if rehearsal.untrained is not None:
        rows.append((f"{rehearsal.untrained:.4g}", "this network, before any training"))
    if rehearsal.start is not None:
        rows.append((f"{rehearsal.start:.4g}", "this network, with the weights of continue_from"))
    losses = np.array(rehearsal.losses)
    ends = f"{losses[0]:.4g} at the first, {losses[-1]:.4g} at the last"
    label = f"Loss of one batch at {plural(len(losses), 'update')}: {ends}"
    return element(
        "section",
        element("h2", "Loss"),
        table(("Loss", "Whose"), rows) if rows else "",
        element("h2", "One batch, again and again"),
        element("div", bars(np.maximum(losses, 0.0), label), class_="chart"),
        element("p", f"{label}. The sentence above compares its first tenth with its last.", class_="quiet"),
    )


def _rows(page: PreflightPage) -> Markup:
    rows = page.rehearsal.rows[: len(page.sounds)]
    return element(
        "section",
        element("h2", "The first batch, as the network gets it"),
        element(
            "p",
            "Each row was cut, padded and joined with its captions as in training, and decoded again.",
            class_="quiet lead",
        ),
        spectrogram_key("the row"),
        *(_row(row, sound, page.codebook_size) for row, sound in zip(rows, page.sounds, strict=True)),
    )


def _row(row: SeenRow, sound: Sound, codebook_size: int | None) -> Markup:
    about = f"{duration(sound.seconds)} · {count(len(row.array))} frames"
    told = [Fact(name, value or "nothing") for name, value in row.conditions.items()]
    return element(
        "article",
        element("header", element("h3", row.id), element("p", about, class_="quiet")),
        sounds_side_by_side(row.id, [("Decoded", sound)]),
        array_figure(row.id, row.seen, codebook_size),
        details_list(told) if told else element("p", "The network is told nothing about it.", class_="quiet"),
        class_="card",
    )


def _statistics(page: PreflightPage) -> Markup:
    if page.latents is not None:
        note = element(
            "p", "Over the first batch, as the network sees them: near mean 0 and deviation 1.", class_="quiet lead"
        )
        return element("section", element("h2", "Latent channels"), note, latent_chart(page.latents))
    if page.codes is not None:
        return element("section", element("h2", "Codebook usage in the first batch"), code_charts(page.codes))
    return Markup("")
