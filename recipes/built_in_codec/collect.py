"""Collect the training corpus of the built-in codec: Debian packages, synthesised clips, and tables that split them.

    python recipes/built_in_codec/collect.py OUT [--debs DIR]

OUT/debs          the packages, unless DIR has them
OUT/packages      what is in them
OUT/synthesised   clips made by synthesis.py
OUT/*.csv         train-music, train-speech, train-effects, train-synthesised, valid, held-out, unseen

Whatever is finished is kept, so a second run only does what is missing; the tables are written last.
"""

import argparse
import csv
import io
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import soundfile
from splits import (
    COLUMNS,
    SOURCES,
    SYNTHESISED,
    SYNTHESISED_LICENCE,
    Entry,
    Recording,
    Source,
    entries_of,
    is_taken,
    song_of,
    tables_of,
)
from synthesis import CLIP_SECONDS, SAMPLE_RATE, synthesised_clip

from solfa.audio import write_audio
from solfa.demo import WRITTEN_AT
from solfa.errors import AudioError, ConfigError, SolfaError
from solfa.files import replace_atomically, temporary_path

SEED = 0
NUM_TRAIN_CLIPS = 120
NUM_VALID_CLIPS = 12


def collect(out: Path, debs: Path | None) -> list[Entry]:
    """Bring the corpus to `out` and return its rows."""
    entries: list[Entry] = []
    for source in SOURCES:
        folder = unpacked(source.package, out, debs)
        entries += entries_of(recordings_in(folder, source, out), source)
    entries += synthesised_entries(synthesised(out / SYNTHESISED, NUM_TRAIN_CLIPS + NUM_VALID_CLIPS), out)
    write_tables(out, entries)
    return entries


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Give a new folder to fill; it gets its name when it is complete, and is removed if it never is."""
    temporary = temporary_path(folder.parent, folder.name)
    temporary.mkdir()
    try:
        yield temporary
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def unpacked(package: str, out: Path, debs: Path | None) -> Path:
    """Unpack a package below `out` unless it is there, and return its folder."""
    folder = out / "packages" / package
    if not folder.is_dir():
        deb = deb_in(debs or downloaded(package, out / "debs" / package), package)
        with appearing(folder) as temporary:
            run(["dpkg", "-x", str(deb), str(temporary)], f"{deb}: cannot be unpacked; delete it and run again")
    return folder


def downloaded(package: str, folder: Path) -> Path:
    """Download a package into its own folder unless it is there, and return the folder."""
    if not folder.is_dir():
        failure = f"{package}: cannot be downloaded; run `apt-get update` as root, or give the .deb files with --debs"
        with appearing(folder) as temporary:
            run(["apt-get", "download", package], failure, folder=temporary)
    return folder


def deb_in(folder: Path, package: str) -> Path:
    """Find the file of a package."""
    found = sorted(folder.glob(f"{package}_*.deb"))
    if not found:
        raise ConfigError(f"{folder}: expected {package}_*.deb, found none; run `apt-get download {package}` there")
    return found[-1]


def run(command: Sequence[str], failure: str, folder: Path | None = None) -> None:
    """Run a program of Debian; raise one sentence if it is missing or fails."""
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise ConfigError(
            f"{command[0]}: not found; collect on Debian or Ubuntu, or copy a collected folder from there"
        ) from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or ["no message"]
        raise ConfigError(f"{failure} ({command[0]}: {lines[-1]})") from None


def recordings_in(folder: Path, source: Source, out: Path) -> list[Recording]:
    """List the recordings of an unpacked package, with their lengths."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    inside = [(path, PurePosixPath(path.relative_to(folder).as_posix())) for path in paths]
    return [
        Recording(path.relative_to(out).as_posix(), song_of(name, source), seconds_of(path))
        for path, name in inside
        if is_taken(name, source)
    ]


def seconds_of(path: Path) -> float:
    """Read how long a recording lasts."""
    try:
        return float(soundfile.info(path).duration)
    except soundfile.LibsndfileError as error:
        raise AudioError(f"{path}: cannot be read ({error}); delete the package's folder and run again") from None


def synthesised(folder: Path, count: int) -> Path:
    """Synthesise clips into `folder` unless it exists, and return it."""
    if not folder.is_dir():
        with appearing(folder) as temporary:
            for number in range(count):
                path = temporary / f"{number:03d}.wav"
                write_audio(path, synthesised_clip(SEED, number), SAMPLE_RATE, wav_subtype="PCM_16")
                os.utime(path, (WRITTEN_AT, WRITTEN_AT))
    return folder


def synthesised_entries(folder: Path, out: Path) -> list[Entry]:
    """Make the rows of the synthesised clips: the last ones are for validation."""
    paths = sorted(folder.glob("*.wav"))
    first_valid = len(paths) - NUM_VALID_CLIPS
    return [
        Entry(
            path.relative_to(out).as_posix(),
            SYNTHESISED,
            SYNTHESISED,
            SYNTHESISED_LICENCE,
            "train" if number < first_valid else "valid",
            CLIP_SECONDS,
        )
        for number, path in enumerate(paths)
    ]


def write_tables(out: Path, entries: Sequence[Entry]) -> None:
    """Write one CSV table for every part of the corpus; paths are relative to it."""
    for name, rows in tables_of(entries).items():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([COLUMNS, *(entry.row for entry in rows)])
        replace_atomically(out / name, text.getvalue().encode())


def summary(entries: Sequence[Entry]) -> str:
    """Lay out how much there is of every kind and split, and under which licences."""
    lines = [f"{'kind':<12} {'split':<9} {'recordings':>10} {'hours':>6}  licences"]
    for kind, split in sorted({(entry.kind, entry.split) for entry in entries}):
        chosen = [entry for entry in entries if (entry.kind, entry.split) == (kind, split)]
        hours = sum(entry.seconds for entry in chosen) / 3600.0
        licences = ", ".join(sorted({entry.licence for entry in chosen}))
        lines.append(f"{kind:<12} {split:<9} {len(chosen):>10} {hours:>6.2f}  {licences}")
    return "\n".join(lines)


def main() -> None:
    """Read the arguments, collect, and print what was collected."""
    parser = argparse.ArgumentParser(description="Collect the training corpus of the built-in codec.")
    parser.add_argument("out", type=Path, metavar="OUT", help="The folder of the corpus.")
    parser.add_argument("--debs", type=Path, metavar="DIR", help="Take the .deb files from here; download nothing.")
    arguments = parser.parse_args()
    try:
        print(summary(collect(arguments.out, arguments.debs)))
    except SolfaError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
