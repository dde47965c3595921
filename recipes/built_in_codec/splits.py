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

EXTENSIONS = (".ogg", ".opus", ".flac", ".wav")
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
ASTERISK = "usr/share/asterisk/sounds"
FISH_FILLETS = "usr/share/games/fillets-ng"
FLARE = "usr/share/games/flare/mods/fantasycore"
FREEDROID = "usr/share/freedroidrpg/data/sound"
HEDGEWARS = "usr/share/games/hedgewars/Data"
MARS = "usr/share/games/marsshooter/audio"
UNKNOWN_HORIZONS = "usr/share/unknown-horizons/content/audio"
FOLDER = r".*(?=/)"
"""The guitar and the rest of a song lie in its folder."""
FAMILY = r"[^_]*_[^_]*?(?=\d*(_|$))"
"""The first two words, unnumbered: `loop_amen` is part of `loop_amen_full`, and `tabla_tun2` like `tabla_tun1`."""
SERIES = r".*?(?=[-_ ]?\d*$)"
"""Without the number at its end: `axe-2` is the same axe as `axe-1`."""
GPL2, GPL3, CC_BY_SA = "GPL-2.0-or-later", "GPL-3.0-or-later", "CC-BY-SA-3.0"

MUSIC = (
    Source("singularity-music", "music", CC_BY_SA, "usr/share/games/singularity/music", held_out=2, valid=1),
    Source("fretsonfire-songs-muldjord", "music", CC_BY_SA, FRETS_ON_FIRE, held_out=1, song=FOLDER),
    Source("fretsonfire-songs-sectoid", "music", "MIT", FRETS_ON_FIRE, held_out=1, song=FOLDER),
    Source("warzone2100-music", "music", GPL2, "usr/share/games/warzone2100/music", held_out=2),
    Source("wesnoth-1.16-music", "music", GPL2, "usr/share/games/wesnoth", held_out=3, without=("silence",)),
    Source("naev-data", "music", GPL3, "usr/share/naev/dat/snd/music", held_out=3, valid=1, song=SERIES),
    Source("hedgewars-data", "music", "GPL-2.0-only", f"{HEDGEWARS}/Music", held_out=2, song=SERIES),
    Source("colobot-common-sounds", "music", GPL3, "usr/share/games/colobot/music", held_out=1, song=SERIES),
    Source("marsshooter-data", "music", CC_BY_SA, f"{MARS}/music", held_out=1),
    Source("freedroidrpg-data", "music", GPL2, f"{FREEDROID}/music"),
    Source("unknown-horizons", "music", GPL2, f"{UNKNOWN_HORIZONS}/music"),
    Source("flare-game", "music", CC_BY_SA, f"{FLARE}/music"),
    Source("starfighter-data", "music", GPL2, "usr/share/starfighter/music"),
    Source("fillets-ng-data", "music", GPL2, f"{FISH_FILLETS}/music"),
    Source("frozen-bubble-data", "music", "GPL-2.0-only", "usr/share/games/frozen-bubble/snd"),
    Source("lincity-ng-data", "music", GPL2, "usr/share/games/lincity-ng/music"),
    Source("extremetuxracer-data", "music", GPL2, "usr/share/games/etr/music"),
)
SPEECH = (
    Source("festvox-ru", "speech", "BSD-like", "usr/share/festival/voices", held_out=20, valid=8),
    *(
        Source(
            f"asterisk-core-sounds-{language}-wav",
            "speech",
            CC_BY_SA,
            ASTERISK,
            held_out=held_out,
            valid=valid,
            without=("silence",),
        )
        for language, held_out, valid in (("en", 20, 6), ("fr", 0, 0), ("es", 0, 0), ("it", 4, 2), ("ru", 0, 0))
    ),
    Source("fillets-ng-data-cs", "speech", GPL2, f"{FISH_FILLETS}/sound", held_out=6, valid=2, song=FOLDER),
    Source("fillets-ng-data-nl", "speech", GPL2, f"{FISH_FILLETS}/sound", held_out=3, valid=1, song=FOLDER),
    Source("klettres-data", "speech", GPL2, "usr/share/klettres"),
    Source("ktuberling-data", "speech", GPL2, "usr/share/ktuberling/sounds", held_out=6, valid=2),
    Source("hedgewars-data", "speech", "GFDL-1.3", f"{HEDGEWARS}/Sounds/voices"),
)
EFFECTS = (
    Source("sonic-pi-samples", "effects", "CC0-1.0", "usr/share/sonic-pi/samples", held_out=14, valid=5, song=FAMILY),
    Source("wesnoth-1.16-data", "effects", GPL2, "usr/share/games/wesnoth", held_out=6, valid=3, song=SERIES),
    Source("hydrogen-drumkits", "effects", "free, one per kit", "usr/share/hydrogen/data/drumkits"),
    Source("hedgewars-data", "effects", "GFDL-1.3", f"{HEDGEWARS}/Sounds", without=("voices",)),
    Source("naev-data", "effects", GPL3, "usr/share/naev/dat/snd/sounds"),
    Source("colobot-common-sounds", "effects", GPL3, "usr/share/games/colobot/sounds"),
    Source("flare-game", "effects", CC_BY_SA, f"{FLARE}/soundfx"),
    Source("freedroidrpg-data", "effects", GPL2, f"{FREEDROID}/effects"),
    Source("unknown-horizons", "effects", GPL2, f"{UNKNOWN_HORIZONS}/sounds"),
    Source("lincity-ng-data", "effects", GPL2, "usr/share/games/lincity-ng/sounds"),
    Source("marsshooter-data", "effects", "public domain", f"{MARS}/toon"),
    Source("starfighter-data", "effects", GPL2, "usr/share/starfighter/sound"),
    Source("lomiri-sounds", "effects", "CC-BY-SA-3.0, CC-BY-4.0, CC0-1.0", "usr/share/sounds/lomiri"),
)
UNSEEN = (
    Source("drascula-music", "music", "Drascula", "usr/share/scummvm/drascula", unseen=True),
    Source("pushover-data", "music", GPL3, "usr/share/pushover", unseen=True),
    Source("planetblupi-music-ogg", "music", GPL3, "usr/share/planetblupi", unseen=True),
    Source("hyperrogue-music", "music", CC_BY_SA, "usr/share/hyperrogue/music", unseen=True),
    Source("hyperrogue-music", "effects", CC_BY_SA, "usr/share/hyperrogue/sounds", unseen=True),
    Source("supertux-data", "music", GPL2, "usr/share/games/supertux2/music", unseen=True),
    Source("supertux-data", "effects", GPL2, "usr/share/games/supertux2/sounds", unseen=True),
)
"""Whole packages that are for the report alone."""
SOURCES = (*MUSIC, *SPEECH, *EFFECTS, *UNSEEN)


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
    return inside and not {*path.relative_to(source.folder).parts, path.stem} & {*source.without}


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
