"""Cut captioned clips from Debian packages, for a model that is conditioned on text.

    python recipes/mot_captions/collect.py PACKAGES OUT

PACKAGES/PACKAGE  the packages, unpacked with `dpkg -x`
OUT/clips         at most five seconds each, mono, at the sample rate of the recording
OUT/clips.csv     path, caption, source, title, kind, split: a source for `solfa encode`

A clip that is there is kept, so a second run only does what is missing; the table is written last.
"""

import argparse
import configparser
import csv
import hashlib
import io
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import soundfile
from captions import pick
from pieces import READERS, Piece
from prompts import Span

from solfa.audio import Audio, to_channels, write_audio
from solfa.errors import AudioError, ConfigError, SolfaError
from solfa.files import replace_atomically

COLUMNS = ("path", "caption", "source", "title", "kind", "split")
VALID_SHARE = 0.1
SILENT_RMS = 3e-3
"""Of full scale, -50 dB: stems have long rests."""


@dataclass(frozen=True)
class Clip:
    """A row of the table, and where its audio comes from."""

    piece: Piece
    span: Span
    split: str

    @property
    def path(self) -> str:
        """Where the clip is, relative to the table; the same name always holds the same audio."""
        start, stop = (round(1000 * seconds) for seconds in self.span)
        name = re.sub(r"[^\w./-]+", "_", self.piece.name)
        return f"clips/{self.piece.source}/{name}-{start:06d}-{stop:06d}.flac"

    @property
    def row(self) -> tuple[str, ...]:
        """The values of the columns."""
        piece = self.piece
        return self.path, pick(piece.wordings, self.path), piece.source, piece.title, piece.kind, self.split


def collect(packages: Path, out: Path) -> list[Clip]:
    """Write the clips and the table, and return its rows."""
    clips = plan_clips(pieces_in(packages))
    audible = [clip for _, group in groupby(clips, lambda clip: clip.piece.recording) for clip in cut(list(group), out)]
    audible.sort(key=lambda clip: clip.path)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *(clip.row for clip in audible)])
    replace_atomically(out / "clips.csv", text.getvalue().encode())
    return audible


def pieces_in(packages: Path) -> list[Piece]:
    """Read what all packages say about their recordings."""
    missing = [name for name in READERS if not (packages / name).is_dir()]
    if missing:
        raise ConfigError(
            f"{packages}: expected a folder for each package, found none for {', '.join(missing)}; "
            "run `apt-get download PACKAGE`, then `dpkg -x PACKAGE_*.deb PACKAGE` there"
        )
    return [piece for name in READERS for piece in pieces_of(packages / name)]


def pieces_of(package: Path) -> list[Piece]:
    """Read what one package says about its recordings."""
    try:
        return list(READERS[package.name](package))
    except SolfaError:
        raise  # ConfigError is a ValueError, too.
    except (OSError, LookupError, ValueError, configparser.Error) as error:
        raise ConfigError(
            f"{package}: expected what Debian packed, found {type(error).__name__}: {error}; "
            "delete it and unpack the package again, in the version of README.md"
        ) from None


def valid_groups(groups: Collection[str], source: str) -> frozenset[str]:
    """Keep a tenth of a package's groups for validation, at least one: the first by the SHA-256 of SOURCE/GROUP."""
    ranked = sorted({*groups}, key=lambda group: hashlib.sha256(f"{source}/{group}".encode()).digest())
    return frozenset(ranked[: max(1, round(VALID_SHARE * len(ranked)))])


def plan_clips(pieces: Sequence[Piece]) -> list[Clip]:
    """Give every span of every piece its split."""
    by_source: dict[str, list[str]] = {}
    for piece in pieces:
        by_source.setdefault(piece.source, []).append(piece.group)
    valid = {source: valid_groups(groups, source) for source, groups in by_source.items()}
    return [
        Clip(piece, span, "valid" if piece.group in valid[piece.source] else "train")
        for piece in pieces
        for span in piece.spans
    ]


def cut(clips: Sequence[Clip], out: Path) -> list[Clip]:
    """Write the clips of one recording, and return those that are not silent."""
    missing = [clip for clip in clips if not (out / clip.path).is_file()]
    silent = set()
    if missing:
        recording = missing[0].piece.recording
        try:
            with soundfile.SoundFile(recording) as sound:
                for clip in missing:
                    audio = read_span(sound, clip.span)
                    if np.sqrt(np.mean(np.square(audio))) < SILENT_RMS:
                        silent.add(clip.path)
                    else:
                        write_audio(out / clip.path, audio, sound.samplerate)
        except soundfile.LibsndfileError as error:
            raise AudioError(f"{recording}: cannot be read ({error}); unpack the package again") from None
    return [clip for clip in clips if clip.path not in silent]


def read_span(sound: soundfile.SoundFile, span: Span) -> Audio:
    """Decode a span of an open recording to `[1, N]`."""
    start, stop = (round(seconds * sound.samplerate) for seconds in span)
    sound.seek(start)
    audio: Audio = sound.read(stop - start, dtype="float32", always_2d=True).T
    return to_channels(audio, 1)


def summary(clips: Iterable[Clip]) -> str:
    """Lay out how much there is of every kind and split."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for clip in clips:
        both = (clip.piece.kind, clip.split)
        seconds.setdefault(both, []).append(clip.span.stop - clip.span.start)
    lines = [f"{'kind':<16} {'split':<6} {'clips':>6} {'hours':>6}"]
    for (kind, split), lengths in sorted(seconds.items()):
        lines.append(f"{kind:<16} {split:<6} {len(lengths):>6} {sum(lengths) / 3600:>6.2f}")
    every = [length for lengths in seconds.values() for length in lengths]
    return "\n".join([*lines, f"{'all':<23} {len(every):>6} {sum(every) / 3600:>6.2f}"])


def main() -> None:
    """Read the arguments, collect, and print what was collected."""
    parser = argparse.ArgumentParser(description="Cut captioned clips from unpacked Debian packages.")
    parser.add_argument("packages", type=Path, metavar="PACKAGES", help="The folder of the unpacked packages.")
    parser.add_argument("out", type=Path, metavar="OUT", help="The folder of the clips and their table.")
    arguments = parser.parse_args()
    try:
        print(summary(collect(arguments.packages, arguments.out)))
    except SolfaError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
