"""The page that plays generated clips, epoch by epoch, with links to the files next to it.

It runs no scripts and loads only pictures and sounds from its own folder.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from solfa.spelling import duration, plural
from solfa.ui.html.charts import axis, spectrogram_key
from solfa.ui.html.document import html_document
from solfa.ui.html.markup import Markup, element, join
from solfa.ui.html.picture import frequency_ticks, time_ticks
from solfa.version import __version__

POLICY = "default-src 'none'; img-src 'self' file:; media-src 'self' file:; style-src 'unsafe-inline'"

CAPTIONS = ("text", "caption", "description", "prompt")
"""Metadata to show above the clip."""


class Sample(NamedTuple):
    """A clip in a file next to the page."""

    name: str
    file: str
    """The path relative to the page, without extension."""
    seconds: float
    sample_rate: int
    levels: str
    metadata: Mapping[str, Any]


def render_samples(title: str, epochs: Mapping[int, Sequence[Sample]]) -> str:
    """Render the page as HTML, epochs in the order given."""
    number = sum(len(samples) for samples in epochs.values())
    body = element(
        "main",
        element("h1", title),
        element("p", f"{plural(number, 'clip')} from {plural(len(epochs), 'epoch')}, latest first", class_="subtitle"),
        spectrogram_key("the clip", "quiet"),
        *(_epoch(epoch, samples) for epoch, samples in epochs.items()),
        element("footer", f"Written by Solfa {__version__}."),
    )
    return html_document(title, body, POLICY)


def _epoch(epoch: int, samples: Sequence[Sample]) -> Markup:
    heading = element("h2", f"Epoch {epoch}", id=f"epoch-{epoch}")
    return element("section", heading, *(_sample(epoch, sample) for sample in samples))


def _sample(epoch: int, sample: Sample) -> Markup:
    caption = caption_of(sample.metadata)
    address = quote(sample.file)
    return element(
        "article",
        element("header", element("h3", sample.name), element("p", duration(sample.seconds), class_="quiet")),
        element("p", caption, class_="caption") if caption else "",
        element("div", _picture(sample, address), class_="pair single") if sample.seconds else "",
        element(
            "audio",
            controls=True,
            preload="metadata",
            src=f"{address}.wav",
            aria_label=f"{sample.name}, epoch {epoch}",
        ),
        element("p", sample.levels, class_="quiet"),
        _metadata(sample.metadata),
        class_="card",
    )


def caption_of(metadata: Mapping[str, Any]) -> str:
    """Find the text that a clip was made from, also among its conditions; empty without one."""
    conditions = metadata.get("conditions")
    places = (metadata, conditions if isinstance(conditions, Mapping) else {})
    return next((str(place[name]) for place in places for name in CAPTIONS if place.get(name)), "")


def _picture(sample: Sample, address: str) -> Markup:
    marks = (
        element("span", label, class_="khz", style=f"bottom:{100 * height:.2f}%")
        for label, height in frequency_ticks(sample.sample_rate)
    )
    alt = f"Mel spectrogram of {sample.name}: {sample.seconds:.2f} seconds, 0 to {sample.sample_rate / 2000:g} kHz"
    image = element("img", src=f"{address}.png", alt=alt, loading="lazy")
    return element(
        "div", element("div", *marks, image, class_="plot"), axis(time_ticks(sample.seconds)), class_="plotted"
    )


def _metadata(metadata: Mapping[str, Any]) -> Markup:
    if not metadata:
        return Markup("")
    rows = (join(element("dt", name), element("dd", _value(value))) for name, value in metadata.items())
    return element("details", element("summary", "Metadata"), element("dl", *rows, class_="details"))


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
