"""The page of a report: tables, the chart, and clips to listen to before and after every system, in one HTML file."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from solfa.files import replace_atomically
from solfa.spelling import duration
from solfa.ui import Markup, element
from solfa.ui.html.charts import axis
from solfa.ui.html.document import html_document
from solfa.ui.html.excerpt import data_uri, excerpt, flac, levels
from solfa.ui.html.picture import RANGE_DB, frequency_ticks, spectrogram_db, spectrogram_png, time_ticks
from solfa.ui.html.report import POLICY
from solfa.ui.html.report_data import Sound
from solfa.version import __version__

from .clips import SAMPLE_RATE, Clip, Mono, read_excerpt, spread
from .competitors import System
from .measuring import Measurement
from .metrics import resample
from .pictures import quality_chart, spectrogram_sheet
from .summary import EXPLANATION, TITLE, Group, cells, header

NamedSounds = list[tuple[str, Sound]]


def listening_clips(clips: Sequence[Clip], per_kind: int) -> list[Clip]:
    """Choose the clips that the page plays: a few of every table and kind."""
    groups: dict[tuple[str, str], list[Clip]] = {}
    for clip in clips:
        groups.setdefault((clip.row.table, clip.row.kind), []).append(clip)
    return [clip for members in groups.values() for clip in spread(members, per_kind)]


def renditions(clip: Clip, systems: Sequence[System], seconds: float) -> NamedSounds:
    """Give the original and what every system makes of it, from the excerpt's beginning on.

    All at 48 kHz, so that the pictures have one axis.
    """
    reference = read_excerpt(clip)
    sounds = [("Original", _sound(reference, SAMPLE_RATE))]
    for system in systems:
        rendition = system.render(reference)
        sounds.append((system.name, _sound(rendition.audio, rendition.sample_rate)))
    return [(name, excerpt(sound, seconds)) for name, sound in sounds]


def _sound(audio: Mono, sample_rate: int) -> Sound:
    return Sound(np.asarray(resample(audio, sample_rate, SAMPLE_RATE))[None], SAMPLE_RATE)


def write_page(
    groups: Sequence[Group],
    measurements: Sequence[Measurement],
    heard: Sequence[tuple[Clip, NamedSounds]],
    out: Path,
) -> None:
    """Write `index.html`, and its pictures also as `visqol.svg` and `spectrograms.svg`."""
    chart = quality_chart(groups)
    replace_atomically(out / "visqol.svg", chart.encode())
    if heard:
        replace_atomically(out / "spectrograms.svg", spectrogram_sheet(heard[0][1]).encode())
    scores = {(each.clip.digest, each.system): each for each in measurements}
    body = element(
        "main",
        element("h1", TITLE),
        element("p", EXPLANATION.replace("\n", " ").strip(), class_="subtitle"),
        element("figure", chart, class_="card", style="margin-top: 1.5rem"),
        *(_table(group) for group in groups),
        _listening(heard, scores),
        element("footer", f"Written by Solfa {__version__}. This page is one file; it loads nothing."),
    )
    html = html_document(TITLE, body, POLICY)
    replace_atomically(out / "index.html", html.encode())


def _table(group: Group) -> Markup:
    titles = element("tr", *(element("th", name, scope="col") for name in header(group)))
    rows = (element("tr", *(element("td", cell) for cell in cells(group, line))) for line in group.lines)
    return element(
        "section",
        element("h2", group.title),
        element("p", group.size, class_="quiet lead"),
        element("div", element("table", element("thead", titles), element("tbody", *rows)), class_="scroll"),
    )


def _listening(heard: Sequence[tuple[Clip, NamedSounds]], scores: dict[tuple[str, str], Measurement]) -> Markup:
    if not heard:
        return Markup("")
    key = element(
        "p",
        "Spectrograms: kHz on a mel axis over seconds; ",
        element("span", f"−{RANGE_DB:g} dB", element("i", class_="key"), "the loudest of the original."),
        class_="quiet lead",
    )
    cards = (_card(clip, sounds, scores) for clip, sounds in heard)
    return element("section", element("h2", "Clips to listen to"), key, *cards)


def _card(clip: Clip, sounds: NamedSounds, scores: dict[tuple[str, str], Measurement]) -> Markup:
    pictures = [spectrogram_db(sound.audio, sound.sample_rate) for _, sound in sounds]
    loudest = float(pictures[0].max())
    columns = [
        _player(name, clip.id, sound, spectrogram_png(picture, loudest), scores.get((clip.digest, name)))
        for (name, sound), picture in zip(sounds, pictures, strict=True)
    ]
    about = f"{clip.row.kind}, {clip.row.table} · {duration(sounds[0][1].seconds)}"
    return element(
        "article",
        element("header", element("h3", clip.id), element("p", about, class_="quiet")),
        element("div", *columns, class_="pair"),
        class_="card",
    )


def _player(name: str, clip_id: str, sound: Sound, picture: bytes, measured: Measurement | None) -> Markup:
    marks = (
        element("span", label, class_="khz", style=f"bottom:{100 * height:.2f}%")
        for label, height in frequency_ticks(sound.sample_rate)
    )
    image = element("img", src=data_uri(picture, "image/png"), alt=f"Mel spectrogram, {name}: {clip_id}")
    note = levels(sound.audio)
    if measured is not None:
        rate = "" if measured.kbit_per_second is None else f"{measured.kbit_per_second:.1f} kbit/s · "
        note = f"{rate}ViSQOL {measured.scores.visqol:.2f} · SI-SDR {measured.scores.si_sdr_db:.1f} dB"
    return element(
        "section",
        element("h4", name),
        element("div", element("div", *marks, image, class_="plot"), axis(time_ticks(sound.seconds)), class_="plotted"),
        element(
            "audio",
            controls=True,
            preload="metadata",
            src=data_uri(flac(sound), "audio/flac"),
            aria_label=f"{name}: {clip_id}",
        ),
        element("p", note, class_="quiet"),
    )
