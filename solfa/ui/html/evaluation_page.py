"""The page of an evaluation: measures with their intervals as pictures, the best and worst clips, what fell out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from solfa.evaluate.copies import COPY_MEASURES
from solfa.evaluate.evaluation import ClipScore, Evaluation
from solfa.evaluate.measures import Difference, Measure, finite
from solfa.files.whole_files import replace_atomically
from solfa.ops.recording_bootstrap import Interval
from solfa.spelling import plural, short
from solfa.ui.html.cards import sounds_side_by_side
from solfa.ui.html.charts import spectrogram_key
from solfa.ui.html.document import html_document
from solfa.ui.html.markup import Markup, element
from solfa.ui.html.report import POLICY
from solfa.ui.html.report_data import Sound
from solfa.version import __version__

PAGE_NAME = "evaluation.html"
CLIPS_SHOWN = 4
"""Of the best and of the worst."""
MAX_FALLEN = 200

Read = Callable[[str], tuple[NDArray[np.float32], int]]
"""Reads a clip `[C, N]` and its rate."""

TITLES = {
    "kad": "KAD",
    "fad": "FAD",
    "fad_infinity": "FAD ∞",
    "kld": "KLD of tags",
    "clap": "Agreement with text",
    "si_sdr": "SI-SDR",
    "mel": "Mel distance",
    "visqol": "ViSQOL",
    "pesq": "PESQ",
    "stoi": "STOI",
    "closeness": "closeness to the reference",
}


def write_evaluation(report: Evaluation, path: Path, read: Read | None, read_original: Read | None = None) -> None:
    """Write the page, replacing an older one atomically; without `read`, it has no sounds."""
    replace_atomically(path, render_evaluation(report, read, read_original).encode("utf-8"))


def render_evaluation(report: Evaluation, read: Read | None, read_original: Read | None = None) -> str:
    """Render the page as HTML."""
    title = f"Evaluation of {report.name}"
    told = f"against {report.reference}, heard by {report.embedder} ({report.embedder_fingerprint[:12]})"
    body = element(
        "main",
        element("h1", title),
        element("p", told, class_="subtitle"),
        _measures(report.measures),
        _differences(report),
        _bits(report),
        _faults(report),
        _nearest(report),
        _clips(report, read, read_original),
        _fallen(report),
        element("footer", f"Written by Solfa {__version__}. This page is a single file and loads nothing else."),
    )
    return html_document(title, body, POLICY)


def _measures(measures: Sequence[Measure]) -> Markup:
    names = ("Measure", "Value", "95 % interval", "Real", "Noise", "Recordings", "")
    rows = (
        element(
            "tr",
            element("td", TITLES.get(measure.name, measure.name)),
            element("td", element("b", number(measure.value)), f" {measure.unit}" if measure.unit else ""),
            element("td", spelled_interval(measure.interval)),
            element("td", number(measure.floor)),
            element("td", number(measure.ceiling)),
            element("td", sizes(measure)),
            element("td", interval_picture(measure)),
        )
        for measure in measures
    )
    note = element("p", " ".join(_explanations(measures)), class_="quiet")
    return element("section", element("h2", "Measures"), _table(names, rows), note)


def _explanations(measures: Sequence[Measure]) -> Iterator[str]:
    """Say what the columns mean for the measures that there are."""
    yield "The interval is where the number lies 19 times out of 20 if recordings are drawn again."
    copies = [TITLES.get(measure.name, measure.name) for measure in measures if measure.name in COPY_MEASURES]
    if len(copies) < len(measures):
        yield "Real: two halves of the reference against each other. Noise: white noise against the reference."
        yield "A value within the interval of what real recordings reach is no difference."
    if copies:
        yield f"For copies ({', '.join(copies)}), real is what an original gets as its own copy,"
        yield "and noise what noise of its loudness gets."


def number(value: float | None) -> str:
    """Spell a number that may be unknown."""
    return "–" if finite(value) is None or value is None else short(value)


def spelled_interval(interval: Interval) -> str:
    """Spell an interval that may be unknown."""
    return f"{number(interval.low)} to {number(interval.high)}"


def spelled_bits(report: Evaluation) -> str:
    """Say how many bits a second takes a model, beside what its codec loses."""
    bits = report.bits
    between = spelled_interval(Interval(bits["low"], bits["high"]))
    return (
        f"{number(bits['bits_per_second'])} bits per second of audio ({between}; "
        f"{plural(bits['num_recordings'], 'recording')}); its codec {bits['codec']} is itself "
        f"{number(bits['codec_mel_db'])} dB of mel distance away from the originals"
    )


def spelled_memorised(report: Evaluation) -> str:
    """Say how many of the clips that were compared with training clips repeat one."""
    compared = sum("nearest" in clip.facts for clip in report.clips)
    return f"{report.num_memorised:,} of {plural(compared, 'clip')} repeat what the model was trained on"


def sizes(measure: Measure) -> str:
    """Say how many recordings a measure is of."""
    against = f" / {measure.num_reference:,}" if measure.num_reference is not None else ""
    return f"{measure.num_recordings:,}{against}"


def interval_picture(measure: Measure) -> Markup:
    """Draw the interval as a bar and the value as a mark, between what is real and what is noise."""
    places = [measure.value, *measure.interval, measure.floor, measure.ceiling]
    known = [place for place in map(finite, places) if place is not None]
    if len(known) < 2 or max(known) == min(known):
        return Markup("")
    left, right = min(known), max(known)

    def at(value: float) -> float:
        return 2.0 + 96.0 * (value - left) / (right - left)

    parts = []
    low, high = finite(measure.interval.low), finite(measure.interval.high)
    if low is not None and high is not None:
        parts.append(element("rect", x=at(low), y=7.0, width=max(0.6, at(high) - at(low)), height=6.0, class_="band"))
    marks = ((measure.floor, "faint"), (measure.ceiling, "faint"), (measure.value, "mean"))
    for value, kind in marks:
        if (place := finite(value)) is not None:
            parts.append(element("rect", x=at(place) - 0.3, y=2.0, width=0.6, height=16.0, class_=kind))
    title, between = TITLES.get(measure.name, measure.name), spelled_interval(measure.interval)
    label = (
        f"{title}: {number(measure.value)}, {between}; real {number(measure.floor)}, noise {number(measure.ceiling)}"
    )
    return element(
        "svg",
        *parts,
        class_="bars",
        view_box="0 0 100 20",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
        style="width:14rem;height:1.4rem",
    )


def _differences(report: Evaluation) -> Markup:
    if report.against is None:
        return Markup("")

    def row(difference: Difference) -> Markup:
        return element(
            "tr",
            element("td", TITLES.get(difference.name, difference.name)),
            element("td", number(difference.value)),
            element("td", spelled_interval(difference.interval)),
            element("td", difference.verdict),
        )

    names = ("Measure", "Difference", "95 % interval", "This set is")
    return element(
        "section",
        element("h2", f"Compared with {report.against}"),
        _table(names, map(row, report.differences)),
    )


def _bits(report: Evaluation) -> Markup:
    if not report.bits:
        return Markup("")
    return element("section", element("h2", "Bits"), element("p", f"{spelled_bits(report)}."))


def _faults(report: Evaluation) -> Markup:
    if not any(clip.facts for clip in report.clips):
        return Markup("")
    counts = ", ".join(f"{name} in {plural(count, 'clip')}" for name, count in report.faults.items())
    faulty = [clip for clip in report.clips if clip.facts.get("faults")][:MAX_FALLEN]
    rows = (element("tr", element("td", clip.id), element("td", ", ".join(clip.facts["faults"]))) for clip in faulty)
    return element(
        "section",
        element("h2", "Faults", class_="alarm" if faulty else None),
        element("p", counts or f"None in {plural(len(report.clips), 'clip')}.", class_="quiet"),
        _table(("Clip", "Faults"), rows) if faulty else "",
    )


def _nearest(report: Evaluation) -> Markup:
    known = [clip for clip in report.clips if "nearest" in clip.facts]
    if not known:
        return Markup("")
    ranked = sorted(known, key=lambda clip: -(clip.facts["nearest"] or {"landmarks": 0})["landmarks"])
    rows = (
        element(
            "tr",
            element("td", clip.id),
            element("td", nearest["id"] if nearest else "–"),
            element("td", f"{max(0.0, nearest['offset_seconds'] + nearest['start_seconds']):.1f} s" if nearest else ""),
            element("td", f"{nearest['landmarks']:,}" if nearest else "0"),
            element("td", "a copy" if nearest and nearest["is_copy"] else "no copy"),
        )
        for clip in ranked[:MAX_FALLEN]
        for nearest in [clip.facts["nearest"]]
    )
    return element(
        "section",
        element("h2", "Nearest training clips", class_="alarm" if report.num_memorised else None),
        element("p", f"{spelled_memorised(report)}.", class_="quiet"),
        _table(("Clip", "Nearest", "From", "Landmarks that agree", ""), rows),
    )


def _clips(report: Evaluation, read: Read | None, read_original: Read | None) -> Markup:
    ranked = report.ranked()
    if not ranked:
        return Markup("")
    best = ranked[:CLIPS_SHOWN]
    worst = [clip for clip in reversed(ranked) if clip not in best][:CLIPS_SHOWN]
    by = TITLES.get(report.ranked_by, report.ranked_by)
    parts = [element("h2", f"Best clips, by {by}"), *(_card(clip, read, read_original) for clip in best)]
    if worst:
        parts += [element("h2", f"Worst clips, by {by}"), *(_card(clip, read, read_original) for clip in worst)]
    return element("section", *parts[:1], spectrogram_key("the first"), *parts[1:])


def _card(clip: ClipScore, read: Read | None, read_original: Read | None) -> Markup:
    scores = " · ".join(f"{TITLES.get(name, name)} {number(value)}" for name, value in clip.scores.items())
    sounds = [] if read is None else [("Clip", *read(clip.id))]
    if read_original is not None and clip.pair is not None:
        sounds.insert(0, ("Reference", *read_original(clip.pair)))
    return element(
        "article",
        element("header", element("h3", clip.id), element("p", scores, class_="quiet")),
        element("p", clip.caption, class_="caption") if clip.caption else "",
        sounds_side_by_side(clip.id, [(name, Sound(audio, rate)) for name, audio, rate in sounds]),
        class_="card",
    )


def _fallen(report: Evaluation) -> Markup:
    if not report.fell_out:
        return Markup("")
    shown = report.fell_out[:MAX_FALLEN]
    rows = (element("tr", element("td", fallen.id), element("td", fallen.reason)) for fallen in shown)
    heading = f"Fell out: {plural(len(report.fell_out), 'recording')}"
    return element("section", element("h2", heading, class_="alarm"), _table(("Recording", "Reason"), rows))


def _table(names: Sequence[str], rows: Iterable[Markup]) -> Markup:
    columns = element("tr", *(element("th", name, scope="col") for name in names))
    body = element("tbody", *rows)
    return element("div", element("table", element("thead", columns), body), class_="scroll")
