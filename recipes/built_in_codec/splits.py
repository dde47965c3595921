"""What the built-in codec is trained on, and the rule that keeps recordings for its examination.

The rule: the songs of a package are put in the order of the SHA-256 of `PACKAGE/SONG`; the first of those that last
at least a second are held out, the next are for validation, everything else is trained on. A song is a recording with
all its stems, so that no part of what is examined was ever heard in training.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Kind = Literal["music", "speech", "effects", "synthesised"]
Split = Literal["train", "valid", "held-out", "unseen"]

EXTENSIONS = (".ogg", ".flac", ".wav")
MEASURABLE_SECONDS = 1.0
"""Shorter recordings are trained on only: perceptual measures want about a second."""
SYNTHESISED: Kind = "synthesised"
SYNTHESISED_LICENCE = "Apache-2.0"
COLUMNS = ("path", "kind", "package", "licence", "split")


@dataclass(frozen=True)
class Source:
    """A Debian package, where its audio is, and how many songs of it are kept from training."""

    package: str
    kind: Kind
    licence: str
    folder: str
    """Inside the package: nothing outside it is taken."""
    held_out: int = 0
    valid: int = 0
    song: str = ".*"
    """The part of a file's path in the folder that names the song: recordings with the same one stay together."""
    without: tuple[str, ...] = ()
    """Names, without extension, or folders that hold no sound."""
    unseen: bool = False
    """Nothing of the package is trained on."""


FRETS_ON_FIRE = "usr/share/games/fretsonfire/data/songs"
FOLDER = r".*(?=/)"
"""The guitar and the rest of a song lie in its folder."""
FAMILY = r"[^_]*_[^_]*?(?=\d*(_|$))"
"""The first two words, unnumbered: `loop_amen` is part of `loop_amen_full`, and `tabla_tun2` like `tabla_tun1`."""
SOURCES = (
    Source("singularity-music", "music", "CC-BY-SA-3.0", "usr/share/games/singularity/music", held_out=2, valid=1),
    Source("fretsonfire-songs-muldjord", "music", "CC-BY-SA-3.0", FRETS_ON_FIRE, held_out=1, song=FOLDER),
    Source("fretsonfire-songs-sectoid", "music", "MIT", FRETS_ON_FIRE, held_out=1, song=FOLDER),
    Source("sonic-pi-samples", "effects", "CC0-1.0", "usr/share/sonic-pi/samples", held_out=14, valid=5, song=FAMILY),
    Source("festvox-ru", "speech", "BSD-like", "usr/share/festival/voices", held_out=20, valid=8),
    Source(
        "asterisk-core-sounds-en-wav",
        "speech",
        "CC-BY-SA-3.0",
        "usr/share/asterisk/sounds",
        held_out=20,
        valid=6,
        without=("silence",),
    ),
    Source(
        "wesnoth-1.16-music", "music", "GPL-2.0-or-later", "usr/share/games/wesnoth", unseen=True, without=("silence",)
    ),
)


@dataclass(frozen=True)
class Recording:
    """An audio file of the corpus, before it has its split."""

    path: str
    """Relative to the corpus, with forward slashes."""
    song: str
    seconds: float


@dataclass(frozen=True)
class Entry:
    """A row of the tables."""

    path: str
    kind: Kind
    package: str
    licence: str
    split: Split
    seconds: float

    @property
    def table(self) -> str:
        """The table that the row stands in."""
        return f"train-{self.kind}.csv" if self.split == "train" else f"{self.split}.csv"

    @property
    def row(self) -> tuple[str, ...]:
        """The values of the columns."""
        return self.path, self.kind, self.package, self.licence, self.split


def is_taken(path: PurePosixPath, source: Source) -> bool:
    """Tell whether a file of the unpacked package belongs to the corpus."""
    inside = path.is_relative_to(source.folder) and path.suffix in EXTENSIONS
    return inside and not {*path.parts, path.stem} & {*source.without}


def song_of(path: PurePosixPath, source: Source) -> str:
    """Name the song a file belongs to."""
    inside = str(path.relative_to(source.folder).with_suffix(""))
    found = re.match(source.song, inside)
    return found[0] if found else inside


def song_splits(recordings: Sequence[Recording], source: Source) -> dict[str, Split]:
    """Give every song its split by the rule above; a song is as long as its shortest recording."""
    if source.unseen:
        return {recording.song: "unseen" for recording in recordings}
    short = {recording.song for recording in recordings if recording.seconds < MEASURABLE_SECONDS}
    songs = {recording.song for recording in recordings}
    ranked = sorted(songs - short, key=lambda song: hashlib.sha256(f"{source.package}/{song}".encode()).digest())
    kept: dict[str, Split] = dict.fromkeys(ranked[: source.held_out], "held-out")
    kept |= dict.fromkeys(ranked[source.held_out : source.held_out + source.valid], "valid")
    return {song: kept.get(song, "train") for song in songs}


def entries_of(recordings: Sequence[Recording], source: Source) -> list[Entry]:
    """Make the rows of one package."""
    splits = song_splits(recordings, source)
    return [
        Entry(recording.path, source.kind, source.package, source.licence, splits[recording.song], recording.seconds)
        for recording in recordings
    ]


def tables_of(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Distribute rows over the tables, each in the order of its paths."""
    tables: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.path):
        tables.setdefault(entry.table, []).append(entry)
    return tables
