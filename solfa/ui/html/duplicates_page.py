"""The page of duplicates: clusters of clips that sound the same, and pairs to listen to from where they agree."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from solfa.data.copies.copy_search import CopyPair
from solfa.data.copies.duplicate_clusters import Duplicates, Member
from solfa.files.whole_files import replace_atomically
from solfa.spelling import duration, plural
from solfa.ui.html.cards import sounds_side_by_side
from solfa.ui.html.document import html_document
from solfa.ui.html.markup import Markup, element
from solfa.ui.html.report import POLICY
from solfa.ui.html.report_data import Sound
from solfa.version import __version__

MAX_ROWS = 500

Read = Callable[[str], tuple[NDArray[Any], int]]
"""Reads the audio `[C, N]` of a clip, and its rate."""


def write_duplicates(
    found: Duplicates, path: Path, read: Read | None, read_other: Read | None = None, num_pairs: int = 20
) -> None:
    """Write the page, replacing an older one atomically; without `read`, it has no sounds."""
    replace_atomically(path, render_duplicates(found, read, read_other or read, num_pairs).encode("utf-8"))


def render_duplicates(found: Duplicates, read: Read | None, read_other: Read | None, num_pairs: int) -> str:
    """Render the page as HTML, with players for the pairs that agree longest."""
    title = f"Copies in {found.dataset}" if found.other is None else f"Copies of {found.dataset} in {found.other}"
    longest = sorted(found.pairs, key=lambda pair: -pair.copy.seconds)[:num_pairs]
    body = element(
        "main",
        element("h1", title),
        element("p", summary(found), class_="subtitle"),
        _clusters(found.clusters),
        _pairs(found.pairs),
        _listen(longest, read, read_other),
        element("footer", f"Written by Solfa {__version__}. This page is a single file and loads nothing else."),
    )
    return html_document(title, body, POLICY)


def summary(found: Duplicates) -> str:
    """Say in one line how much was found."""
    told = f"{plural(len(found.pairs), 'pair')} in {plural(found.num_clips, 'clip')}"
    inside = sum(pair.in_one_recording for pair in found.pairs) if found.other is None else 0
    if found.other is None:
        told += (
            f"; {plural(len(found.clusters), 'cluster')} of {plural(found.num_copies + len(found.clusters), 'clip')}"
        )
    if inside:
        told += f"; {plural(inside, 'pair')} in one recording, which repeats itself"
    if found.num_unknown:
        told += f"; {plural(found.num_unknown, 'clip')} without a fingerprint not compared"
    return told


def _clusters(clusters: Sequence[tuple[Member, ...]]) -> Markup:
    if not clusters:
        return Markup("")
    rows = (
        element(
            "tr",
            element("td", f"{len(cluster):,}"),
            element("td", ", ".join(f"{member.id} ({member.start_seconds:+.2f} s)" for member in cluster[:50])),
        )
        for cluster in clusters[:MAX_ROWS]
    )
    note = "When each clip begins, next to the first of its cluster, if the same sound plays at the same time."
    return element(
        "section",
        element("h2", "Clusters"),
        element("p", note, class_="quiet"),
        _table(("Clips", "Which"), rows),
    )


def _pairs(pairs: Sequence[CopyPair]) -> Markup:
    if not pairs:
        return element("section", element("p", "No two clips sound the same."))
    rows = (
        element("tr", *(element("td", cell) for cell in (pair.id, pair.copy.id, *pair_words(pair))))
        for pair in pairs[:MAX_ROWS]
    )
    names = ("Clip", "Copy", "Begins in the copy at", "Same for", "Landmarks", "Speed")
    more = f"{plural(len(pairs) - MAX_ROWS, 'more pair')} in the JSON." if len(pairs) > MAX_ROWS else ""
    return element("section", element("h2", "Pairs"), _table(names, rows), element("p", more, class_="quiet"))


def pair_words(pair: CopyPair) -> tuple[str, str, str, str]:
    """Spell offset, length, score and speed of a pair."""
    copy = pair.copy
    return f"{copy.offset_seconds:+.2f} s", duration(copy.seconds), f"{copy.landmarks:,}", f"{copy.speed:.1%}"


def _listen(pairs: Sequence[CopyPair], read: Read | None, read_other: Read | None) -> Markup:
    if read is None or read_other is None or not pairs:
        return Markup("")
    return element("section", element("h2", "Listen"), *(_card(pair, read, read_other) for pair in pairs))


def _card(pair: CopyPair, read: Read, read_other: Read) -> Markup:
    copy = pair.copy
    starts = (copy.start_seconds, copy.offset_seconds + copy.start_seconds / copy.speed)
    sounds = [
        (f"{clip_id} from {duration(max(0.0, start))}", _from(reader(clip_id), start))
        for clip_id, reader, start in zip((pair.id, copy.id), (read, read_other), starts, strict=True)
    ]
    told = f"{copy.landmarks} landmarks agree for {duration(copy.seconds)}"
    return element(
        "article",
        element("header", element("h3", f"{pair.id} and {copy.id}"), element("p", told, class_="quiet")),
        sounds_side_by_side(pair.id, sounds),
        class_="card",
    )


def _from(sound: tuple[NDArray[Any], int], start_seconds: float) -> Sound:
    audio, rate = sound
    first = min(max(0, round(start_seconds * rate)), max(0, audio.shape[1] - 1))
    return Sound(audio[:, first:], rate)


def _table(names: Sequence[str], rows: Iterable[Markup]) -> Markup:
    columns = element("tr", *(element("th", name, scope="col") for name in names))
    return element("div", element("table", element("thead", columns), element("tbody", *rows)), class_="scroll")
