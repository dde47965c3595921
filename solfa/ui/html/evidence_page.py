"""The page that shows what a run made of the weights it started from: a verdict, and what it rests on.

It is a single file with its audio inside, runs no scripts and loads nothing.
"""

import numpy as np

from solfa.ops.recording_bootstrap import LEVEL
from solfa.solvers.evidence.comparison import ClipPair, Evidence
from solfa.solvers.evidence.verdict import Estimate, LossChange
from solfa.spelling import plural
from solfa.ui.html.cards import sounds_side_by_side
from solfa.ui.html.charts import bars, spectrogram_key
from solfa.ui.html.document import html_document
from solfa.ui.html.markup import Markup, element
from solfa.ui.html.report import POLICY
from solfa.ui.html.report_data import Fact, Sound
from solfa.ui.html.samples_page import caption_of
from solfa.ui.html.tables import facts_list, table
from solfa.version import __version__


def render_evidence(evidence: Evidence, title: str) -> str:
    """Render the page as HTML."""
    outcome, sentence = evidence.verdict
    source = evidence.started_from.get("source", "other weights")
    body = element(
        "main",
        element("h1", f"{title}: {outcome}"),
        element("p", f"{sentence[0].upper()}{sentence[1:]}.", class_="subtitle"),
        facts_list(_facts(evidence)),
        _losses(evidence),
        _clips(evidence.clips),
        _layers(evidence),
        element(
            "footer",
            f"Started from {source} (sha256 {evidence.started_from.get('sha256', 'unknown')}), compared with the "
            f"weights of epoch {evidence.epoch}. Written by Solfa {__version__}. This page is a single file and loads "
            "nothing else.",
        ),
    )
    return html_document(title, body, POLICY)


def _facts(evidence: Evidence) -> list[Fact]:
    named = (("held-out", evidence.held_out), ("training", evidence.train))
    losses = [
        Fact(f"{name} loss", f"{change.share.value:+.2%}", f"{change.before.value:.4g} to {change.after.value:.4g}")
        for name, change in named
        if change is not None
    ]
    moved = sum(layer.change > 0 for layer in evidence.layers)
    return [*losses, Fact("layers that moved", f"{moved} of {len(evidence.layers)}")]


def _losses(evidence: Evidence) -> Markup:
    named = (("Held out", evidence.held_out), ("Trained on", evidence.train))
    rows = [_loss_row(name, change) for name, change in named if change is not None]
    if not rows:
        return Markup("")
    note = (
        f"The mean {evidence.metric} over recordings, which were judged one by one with the same random draws before "
        f"and after; in brackets, the {LEVEL:.0%} interval if other recordings had been drawn (bootstrap)."
    )
    heading = ("Recordings", "Before", "After", "Difference")
    return element(
        "section",
        element("h2", "Loss"),
        element("p", note, class_="quiet lead"),
        table(heading, rows),
        _curve(evidence),
    )


def _loss_row(name: str, change: LossChange) -> tuple[str, ...]:
    estimates = (change.before, change.after, change.difference)
    return f"{name}, {change.num_recordings}", *(_spelled(estimate) for estimate in estimates)


def _spelled(estimate: Estimate) -> str:
    if estimate.low == estimate.high:
        return f"{estimate.value:.4g}"
    return f"{estimate.value:.4g} ({estimate.low:.4g} to {estimate.high:.4g})"


def _curve(evidence: Evidence) -> Markup:
    if len(evidence.curve) < 2:
        return Markup("")
    words = ", ".join(f"{value:.4g}" for value in evidence.curve)
    return element("p", f"Held-out {evidence.metric} after each epoch: {words}.", class_="quiet")


def _clips(pairs: tuple[ClipPair, ...]) -> Markup:
    if not pairs:
        return Markup("")
    note = "The same seeds and prompts, drawn by the weights at the start and by those that were trained."
    return element(
        "section",
        element("h2", "Clips before and after"),
        element("p", note, class_="quiet lead"),
        spectrogram_key("the clip before"),
        *(_clip(pair) for pair in pairs),
    )


def _clip(pair: ClipPair) -> Markup:
    sounds = [
        (name, Sound(clip.samples(), clip.sample_rate))
        for name, clip in (("Before", pair.before), ("After", pair.after))
    ]
    caption = caption_of(pair.after.metadata)
    same = np.array_equal(sounds[0][1].audio, sounds[1][1].audio)
    return element(
        "article",
        element("header", element("h3", pair.after.name), element("p", "identical" if same else "", class_="quiet")),
        element("p", caption, class_="caption") if caption else "",
        sounds_side_by_side(pair.after.name, sounds),
        class_="card",
    )


def _layers(evidence: Evidence) -> Markup:
    if not evidence.layers:
        return Markup("")
    shares = np.array([min(layer.share, 1e9) for layer in evidence.layers])
    label = f"Change of {plural(len(shares), 'layer')}, each as a share of the norm of its weights"
    rows = [
        (layer.layer, f"{layer.change:.4g}", f"{layer.norm:.4g}", f"{layer.share:.2%}" if layer.norm else "new")
        for layer in evidence.layers
    ]
    return element(
        "section",
        element("h2", "Change per layer"),
        # A bar of the chart is a fiftieth of the page at most: two layers are two bars, not two walls.
        element("div", bars(shares, label, gap=0.06), class_="chart named", style=f"max-width:{2 * len(shares)}%"),
        element("p", f"{label}, in the order of the table.", class_="quiet lead"),
        table(("Layer", "Norm of the change", "Norm before", "Share"), rows),
    )
