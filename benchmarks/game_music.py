"""The music that the heads of SaShiMi are compared on: the middle minute of every track of three games, as mono WAV.

    apt-get download wesnoth-1.16-music singularity-music warzone2100-music
    mkdir packages && for deb in *.deb; do dpkg -x $deb packages/${deb%%_*}; done
    python benchmarks/game_music.py packages/ MUSIC

`recipes/built_in_codec/collect.py corpus` leaves the same folders in corpus/packages. Writes MUSIC/PACKAGE/TRACK.wav,
16 kHz and 16 bits: by these names benchmarks/sashimi_heads.py decides which tracks it holds out. What is there is kept.
"""

import argparse
from pathlib import Path

import numpy as np

from solfa.audio import probe_audio, read_span, write_audio
from solfa.audio.recording import Location
from solfa.errors import ConfigError, SolfaError

PACKAGES = ("wesnoth-1.16-music", "singularity-music", "warzone2100-music")
SUFFIXES = (".ogg", ".opus")
SAMPLE_RATE, SECONDS = 16_000, 60


def find_tracks(packages: Path) -> dict[str, Path]:
    """Name the tracks of all packages as PACKAGE/TRACK."""
    found: dict[str, Path] = {}
    for package in PACKAGES:
        files = [path for path in sorted((packages / package).rglob("*")) if path.suffix in SUFFIXES]
        if not files:
            raise ConfigError(
                f"{packages}: expected the unpacked package {package} with its tracks, found none; "
                f"apt-get download {package}, mkdir -p {packages}, and dpkg -x it into {packages / package}"
            )
        for path in files:
            name = f"{package}/{path.stem}"
            if name in found:
                raise ConfigError(f"{path}: expected tracks of different names, found another {name}: {found[name]}")
            found[name] = path
    return found


def write_middle(track: Path, target: Path) -> None:
    """Write the middle minute of a track, or all of a shorter one."""
    info = probe_audio(track)
    length = min(info.num_samples, SECONDS * info.sample_rate)
    start = (info.num_samples - length) // 2
    audio = read_span(Location(track), info, start, start + length, SAMPLE_RATE, 1)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_audio(target, np.clip(audio, -1, 1), SAMPLE_RATE, wav_subtype="PCM_16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path, metavar="PACKAGES", help="the folder of unpacked packages")
    parser.add_argument("out", type=Path, metavar="MUSIC")
    options = parser.parse_args()
    try:
        tracks = find_tracks(options.packages)
        missing = {name: path for name, path in tracks.items() if not (options.out / f"{name}.wav").exists()}
        for number, (name, path) in enumerate(missing.items(), start=1):
            write_middle(path, options.out / f"{name}.wav")
            print(f"\r{number} of {len(missing)} tracks", end="", flush=True)
        print(f"\n{options.out}: {len(tracks)} tracks")
    except SolfaError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
