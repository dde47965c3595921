"""What networks that were trained to listen hear in codecs, where measures beside the original count every deviation.

    python benchmarks/codec_listening.py held-out.csv unseen.csv --codec solfa_24khz --codec exported/ --opus 6,9 \\
        --out heard/

Every TABLE is a CSV as codec_quality.py takes it; excerpts are chosen by its rule, as mono at 48 kHz. On music: KAD by
musicnn between all copies and all originals, with a 95 % interval over recordings, and its difference to the first
system with the interval of that. On speech: PLCMOS (trained on people's opinions of speech with concealed packet
losses) and the P.808 score of DNSMOS (about speech in noise), which see no original, as means with the standard error
of the mean, and the difference to the first system over the same clips. Copies are kept in --out as WAV at 24 kHz: what
is there is not made again.

Needs packages that carry their weights, and what one of them runs on:

    pip install --no-deps musicnn
    pip install speechmos librosa onnxruntime requests

Writes OUT/heard.json, and OUT/music-CLIPS/SYSTEM/*.wav and OUT/speech-CLIPS/SYSTEM/*.wav, to listen to; CLIPS stands
for which excerpts were chosen.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quality.clips import Kind, choose_clips, read_table
from quality.competitors import Opus, System, codec_systems
from quality.listening import ORIGINAL, SECONDS, hear_music, hear_speech, render
from quality.speech_codecs import is_for, lyra_systems

from solfa.errors import ConfigError, SolfaError


def report(options: argparse.Namespace) -> None:
    systems: list[System] = [ORIGINAL, *codec_systems(options.codec, options.codebooks)]
    systems += [*(Opus(kbit) for kbit in options.opus), *lyra_systems(options.lyra)]
    rows = [row for table in options.tables for row in read_table(table)]
    heard: dict[str, Any] = {}
    for kind in options.kind or SECONDS:
        clips = choose_clips([row for row in rows if row.kind == kind], options.clips, 1, SECONDS[kind])
        if len(clips) < 2:
            raise ConfigError(f"{kind}: expected at least two recordings in the tables, found {len(clips)}")
        suited = [system for system in systems if is_for(system, kind)]
        if len(suited) < 2:
            raise ConfigError(
                f"{kind}: expected a codec to listen to, found none; name one with --codec, or choose --kind"
            )
        folders = render(suited, clips, kind, options.out)
        heard[kind] = hear_music(folders) if kind == "music" else hear_speech(folders)
        show(kind, heard[kind])
    (options.out / "heard.json").write_text(json.dumps(heard, indent=2) + "\n", encoding="utf-8")


def show(kind: Kind, heard: Mapping[str, Any]) -> None:
    """Print a line for each system."""
    for name, found in heard.items():
        if kind == "music":
            low, high = found["interval"]
            parts = [f"KAD {found['kad']:.2f} [{low:.2f}, {high:.2f}] of {found['clips']} clips"]
            parts += [
                f"{d['value']:+.2f} [{d['low']:+.2f}, {d['high']:+.2f}] to the first" for d in found["differences"]
            ]
        else:
            parts = [
                f"{measure} {one['mean']:.2f} ± {one['error']:.2f} "
                f"({one['difference']:+.2f} ± {one['difference_error']:.2f} to the first)"
                for measure, one in found.items()
            ]
        print(f"{kind}, {name}: {', '.join(parts)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", type=Path, metavar="TABLE")
    parser.add_argument("--kind", action="append", choices=list(SECONDS), help="only such sound; repeatable")
    parser.add_argument(
        "--codec", action="append", default=[], metavar="SPEC", help="what load_codec takes; repeatable"
    )
    parser.add_argument("--codebooks", type=_numbers, default=[], help="numbers of codebooks, e.g. 4,8; else all")
    parser.add_argument("--opus", type=_numbers, default=[], help="target rates in kbit/s, e.g. 6,9")
    parser.add_argument(
        "--lyra", type=Path, metavar="DIR", help="Lyra's .tflite files: 3.2, 6 and 9.2 kbit/s on speech"
    )
    parser.add_argument("--clips", type=int, default=20, help="at most, of every table, kind and package")
    parser.add_argument("--out", type=Path, default=Path("heard"))
    try:
        report(parser.parse_args())
    except SolfaError as error:
        parser.exit(2, f"{error}\n")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
