"""The packages, and what each says about its recordings."""

import configparser
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import soundfile
from captions import SAMPLE_FAMILIES, music_wordings, sample_wordings, sample_words, speech_wordings
from prompts import Span, chunks_of, described_sound, parse_phrases, parse_prompts, parse_sentences, spoken_part
from tags import read_tags

from solfa.errors import AudioError, ConfigError

CLIP_SECONDS = 5.0
SHORTEST_SECONDS = 0.2
PAUSE_SECONDS = 0.1
"""Kept before and after a phrase."""
NOT_AUDIO = frozenset({"silence", "rand-stream"})
"""Files and folders that hold no sound, or random numbers."""
GAMEPLAY = "Gameplay music, "


@dataclass(frozen=True)
class Piece:
    """A recording, or a phrase of it, with what is known about it and the spans that become clips."""

    recording: Path
    source: str
    name: str
    """Of the recording in its package, without the extension."""
    kind: str
    title: str
    wordings: tuple[str, ...]
    spans: tuple[Span, ...]
    group: str
    """Pieces of one group share material and stay in one split."""


def seconds_of(path: Path) -> float:
    """Read how long a recording lasts."""
    try:
        return float(soundfile.info(path).duration)
    except soundfile.LibsndfileError as error:
        raise AudioError(f"{path}: cannot be read ({error}); unpack the package again") from None


def spread_spans(seconds: float, most: int) -> tuple[Span, ...]:
    """Choose up to `most` spans of `CLIP_SECONDS`, spread evenly; a shorter recording is one span, a tiny one none."""
    if seconds < CLIP_SECONDS:
        return (Span(0.0, seconds),) if seconds >= SHORTEST_SECONDS else ()
    cells = int(seconds / CLIP_SECONDS)
    count = min(most, cells)
    chosen = [(2 * number + 1) * cells // (2 * count) for number in range(count)]
    return tuple(Span(cell * CLIP_SECONDS, (cell + 1) * CLIP_SECONDS) for cell in chosen)


def recordings_in(folder: Path, extension: str) -> Iterator[tuple[Path, str]]:
    """List the recordings below a folder, with their names in it."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: no such folder; unpack the whole package with `dpkg -x`")
    for path in sorted(folder.rglob(f"*{extension}")):
        name = path.relative_to(folder).with_suffix("")
        if path.is_file() and not NOT_AUDIO & {*name.parts}:
            yield path, name.as_posix()


def asterisk(package: Path) -> Iterator[Piece]:
    """English telephone prompts of Allison Smith; the texts are in a package of their own."""
    texts_package = package.with_name("asterisk-core-sounds-en")
    texts_path = texts_package / "usr/share/doc" / texts_package.name / "core-sounds-en.txt.gz"
    if not texts_path.is_file():
        raise ConfigError(f"{texts_path}: no such file; unpack {texts_package.name} beside {package.name}")
    texts = parse_prompts(gzip.decompress(texts_path.read_bytes()).decode())
    for path, name in recordings_in(package / "usr/share/asterisk/sounds/en_US_f_Allison", ".wav"):
        seconds, text = seconds_of(path), texts.get(name)
        if text is None or not SHORTEST_SECONDS <= seconds <= CLIP_SECONDS:
            continue
        said, spans = spoken_part(text), (Span(0.0, seconds),)
        if said:
            wordings = speech_wordings("woman", "English", said)
            group = " ".join(re.findall(r"\w+", said.lower()))
            yield Piece(path, package.name, name, "english speech", said, wordings, spans, group)
        else:
            sound = described_sound(text)
            yield Piece(path, package.name, name, "effect", sound, sample_wordings("sound effect", sound), spans, sound)


def festvox_ru(package: Path) -> Iterator[Piece]:
    """Russian sentences read by a man, cut at his pauses."""
    voice = package / "usr/share/festival/voices/russian/msu_ru_nsh_clunits"
    sentences = parse_sentences((voice / "etc/txt.done.data").read_text(encoding="utf-8"))
    for path, name in recordings_in(voice / "wav", ".wav"):
        phrases = parse_phrases((voice / "lab" / f"{name}.lab").read_text(encoding="utf-8"))
        seconds, sentence = seconds_of(path), sentences[name]
        for chunk in chunks_of(sentence, phrases, CLIP_SECONDS - 2 * PAUSE_SECONDS):
            span = Span(max(0.0, chunk.span.start - PAUSE_SECONDS), min(seconds, chunk.span.stop + PAUSE_SECONDS))
            wordings = speech_wordings("man", "Russian", chunk.text)
            yield Piece(path, package.name, name, "russian speech", chunk.text or sentence, wordings, (span,), sentence)


def sonic_pi(package: Path) -> Iterator[Piece]:
    """One-shots and loops that are named after what they are."""
    for path, name in recordings_in(package / "usr/share/sonic-pi/samples", ".flac"):
        family = SAMPLE_FAMILIES.get(name.partition("_")[0])
        if family is None:
            continue
        words = sample_words(name)
        # `loop_amen` is part of `loop_amen_full`: the first two words, unnumbered.
        group = re.sub(r"\d+$", "", "_".join(name.split("_")[:2]))
        wordings, spans = sample_wordings(family.label, words), spread_spans(seconds_of(path), 2)
        yield Piece(path, package.name, name, family.kind, words, wordings, spans, group)


def wesnoth(package: Path) -> Iterator[Piece]:
    """Tagged game music; the genre of nearly all is Romantic Classical."""
    for path, name in recordings_in(package / "usr/share/games/wesnoth/1.16/data/core/music", ".ogg"):
        tags = read_tags(path)
        genre, description = tags.get("genre", "").lower(), tags.get("description", "")
        style = "game music" if genre in ("", "game") else f"{genre} game music"
        kind = "classical music" if "classical" in genre else "game music"
        note = description.removeprefix(GAMEPLAY) if description.startswith(GAMEPLAY) else ""
        wordings = music_wordings(style, tags["title"], tags["artist"], note)
        spans = spread_spans(seconds_of(path), 16)
        # Some pieces come in two versions with one title.
        yield Piece(path, package.name, name, kind, tags["title"], wordings, spans, tags["title"])


def singularity(package: Path) -> Iterator[Piece]:
    """Game music that was made with trackers, as the README says: Psycle and Renoise."""
    for path, name in recordings_in(package / "usr/share/games/singularity/music", ".ogg"):
        tags = read_tags(path)
        wordings = music_wordings("game music made with a tracker", tags["title"], tags["artist"])
        yield Piece(
            path,
            package.name,
            name,
            "tracker music",
            tags["title"],
            wordings,
            spread_spans(seconds_of(path), 28),
            name,
        )


def warzone(package: Path) -> Iterator[Piece]:
    """Game music, by the words of the package "abstract, atmospheric and post-apocalyptic beats"."""
    for album_path in sorted((package / "usr/share/games/warzone2100/music/albums").glob("*/album.json")):
        for track in json.loads(album_path.read_text(encoding="utf-8"))["tracks"]:
            path = album_path.with_name(track["filename"])
            style = "game music of abstract, atmospheric or post-apocalyptic beats"
            wordings = music_wordings(style, track["title"], track["author"])
            group = path.stem.removesuffix("_enhanced")
            spans = spread_spans(seconds_of(path), 16)
            name = f"{album_path.parent.name}/{path.stem}"
            yield Piece(path, package.name, name, "beats", track["title"], wordings, spans, group)


def frets_on_fire(package: Path) -> Iterator[Piece]:
    """Songs for a game that is played like a guitar: the guitar is one recording, the rest another."""
    for path, name in recordings_in(package / "usr/share/games/fretsonfire/data/songs", ".ogg"):
        title = _ini(path.with_name("song.ini"))["song"]["name"]
        artist = _ini(path.parents[1] / "library.ini")["library"]["name"].removeprefix("Songs by ")
        genre = read_tags(path).get("genre", "").lower()
        is_guitar = path.stem == "guitar"
        style = f"{genre} {'guitar' if is_guitar else 'backing'} track".strip()
        kind = "guitar" if is_guitar else "metal" if "metal" in genre else "backing track"
        spans = spread_spans(seconds_of(path), 30)
        yield Piece(
            path, package.name, name, kind, title, music_wordings(style, title, artist), spans, path.parent.name
        )


def fillets(package: Path) -> Iterator[Piece]:
    """The music of Fish Fillets, by the words of the package "quiet, comforting"."""
    wordings = (
        "Quiet, comforting game music",
        "Game music, quiet and comforting",
        "Quiet, comforting music from the game Fish Fillets",
    )
    for path, name in recordings_in(package / "usr/share/games/fillets-ng/music", ".ogg"):
        yield Piece(path, package.name, name, "quiet music", name, wordings, spread_spans(seconds_of(path), 16), name)


def _ini(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(path.read_text(encoding="utf-8"))
    return parser


READERS: dict[str, Callable[[Path], Iterable[Piece]]] = {
    "asterisk-core-sounds-en-wav": asterisk,
    "festvox-ru": festvox_ru,
    "fillets-ng-data": fillets,
    "fretsonfire-songs-muldjord": frets_on_fire,
    "fretsonfire-songs-sectoid": frets_on_fire,
    "singularity-music": singularity,
    "sonic-pi-samples": sonic_pi,
    "warzone2100-music": warzone,
    "wesnoth-1.16-music": wesnoth,
}
