"""One clip of a report: its caption, spectrograms and players before and after, its array, its metadata."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from solfa.evaluate.reconstruction import mel_distance_db, signal_to_noise_db
from solfa.spelling import count, duration, short, signed_db
from solfa.ui.html.charts import axis
from solfa.ui.html.excerpt import data_uri, excerpt, flac, levels
from solfa.ui.html.markup import Markup, element, join
from solfa.ui.html.picture import codes_png, frequency_ticks, latents_png, spectrogram_db, spectrogram_png, time_ticks
from solfa.ui.html.report_data import ClipCard, Sound, WrittenClip

PLAYER_SECONDS = 15.0
"""The audio is inside the page: longer excerpts would make it slow to open and to send."""

MAX_VALUE_CHARACTERS = 300


def clip_card(card: ClipCard, player_seconds: float = PLAYER_SECONDS) -> Markup:
    """Render one clip."""
    frames, width = card.array.shape
    noun = "codebook" if card.codebook_size is not None else "channel"
    about = f"{duration(card.seconds)} · {count(frames)} frames × {width} {noun}{'' if width == 1 else 's'}"
    return element(
        "article",
        element("header", element("h3", card.id), element("p", about, class_="quiet")),
        element("p", card.caption, class_="caption") if card.caption else "",
        _sounds(card, player_seconds),
        array_figure(card.id, card.array, card.codebook_size),
        _metadata(card.metadata),
        class_="card",
    )


def written_card(clip: WrittenClip, player_seconds: float = PLAYER_SECONDS) -> Markup:
    """Render one clip that a model wrote."""
    return element(
        "article",
        element("header", element("h3", clip.caption), element("p", duration(clip.sound.seconds), class_="quiet")),
        sounds_side_by_side(clip.id, [("Written", clip.sound)], player_seconds),
        _metadata(clip.metadata),
        class_="card",
    )


def _sounds(card: ClipCard, player_seconds: float) -> Markup:
    named = [("Original", card.original), ("Decoded", card.decoded)]
    heard = [(name, sound) for name, sound in named if sound is not None]
    shown = sounds_side_by_side(card.id, heard, player_seconds)
    return join(shown, _scores(card)) if shown else shown


def sounds_side_by_side(
    clip_id: str, named: Sequence[tuple[str, Sound]], player_seconds: float = PLAYER_SECONDS
) -> Markup:
    """Render sounds with their players and spectrograms, which have one scale, so that they can be compared."""
    excerpts = [(name, excerpt(sound, player_seconds), sound) for name, sound in named if sound.audio.size]
    if not excerpts:
        return Markup("")
    pictures = [spectrogram_db(short_one.audio, short_one.sample_rate) for _, short_one, _ in excerpts]
    loudest = float(pictures[0].max())
    columns = [
        _sound(name, clip_id, short_one, whole, spectrogram_png(picture, loudest))
        for (name, short_one, whole), picture in zip(excerpts, pictures, strict=True)
    ]
    return element("div", *columns, class_="pair" if len(columns) == 2 else "pair single")


def _sound(name: str, clip_id: str, sound: Sound, whole: Sound, picture: bytes) -> Markup:
    khz = sound.sample_rate / 2000
    alt = f"Mel spectrogram, {name.lower()} of {clip_id}: {sound.seconds:.2f} seconds, 0 to {khz:g} kHz"
    marks = (
        element("span", label, class_="khz", style=f"bottom:{100 * height:.2f}%")
        for label, height in frequency_ticks(sound.sample_rate)
    )
    cut = f"first {short(sound.seconds)} s of {short(whole.seconds)} s · " if sound.seconds < whole.seconds else ""
    return element(
        "section",
        element("h4", name),
        element(
            "div",
            element("div", *marks, element("img", src=data_uri(picture, "image/png"), alt=alt), class_="plot"),
            axis(time_ticks(sound.seconds)),
            class_="plotted",
        ),
        element(
            "audio",
            controls=True,
            preload="metadata",
            src=data_uri(flac(sound), "audio/flac"),
            aria_label=f"{name} of {clip_id}",
        ),
        element("p", cut + levels(whole.audio), class_="quiet"),
    )


def _scores(card: ClipCard) -> Markup:
    one, other = card.original, card.decoded
    if one is None or other is None or one.sample_rate != other.sample_rate or one.audio.shape != other.audio.shape:
        return Markup("")
    ratio = signal_to_noise_db(one.audio, other.audio)
    distance = mel_distance_db(one.audio, other.audio, one.sample_rate)
    return element(
        "p",
        "Signal to noise ",
        element("b", signed_db(ratio)),
        " · mel distance ",
        element("b", f"{short(distance)} dB"),
        class_="scores",
    )


def array_figure(clip_id: str, array: NDArray[Any], codebook_size: int | None) -> Markup:
    """Draw the codes or latents `[T, W]` of a clip over time."""
    frames, width = array.shape
    if not frames:
        return Markup("")
    if codebook_size is None:
        picture, words = latents_png(array), f"Latents over time, {width} channels from top to bottom"
    elif width == 1:
        picture, words = codes_png(array, codebook_size), "Codes over time, entry 0 at the bottom"
    else:
        picture = codes_png(array, codebook_size)
        words = f"Codes over time, codebooks 0 to {width - 1} from top to bottom, coloured by entry"
    height = 96 if width == 1 else min(192, max(32, 12 * width))
    image = element("img", src=data_uri(picture, "image/png"), alt=f"{words}: {clip_id}", style=f"height:{height}px")
    return element("figure", image, element("figcaption", words), class_="array")


def _metadata(metadata: Mapping[str, Any]) -> Markup:
    if not metadata:
        return Markup("")
    rows = (join(element("dt", str(name)), element("dd", _value(value))) for name, value in metadata.items())
    return element("details", element("summary", "Metadata"), element("dl", *rows, class_="details"))


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[: MAX_VALUE_CHARACTERS - 1] + "…"
