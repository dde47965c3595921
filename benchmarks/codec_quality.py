"""How good codecs sound at their bit rates: Solfa's beside Opus, MP3 and mu-law, on recordings that you name.

    python benchmarks/codec_quality.py held-out.csv --codec DIRECTORY --codebooks 1,2,4,8 \\
        --opus 6,12,24 --mp3 8,16,32 --mulaw --out report/

    python benchmarks/codec_quality.py held-out.csv unseen.csv --codec DIRECTORY --codec solfa_24khz --codebooks 4,8 \\
        --opus 9 --goals --out report/

Every TABLE is a CSV with the columns path, kind (music, speech or effects) and package. Of every table, kind and
package, at most --clips recordings are taken at equal distances in the order of their paths, and of each the middle
--seconds (shorter ones whole, those below 1 s not at all), as mono at 48 kHz; where there are fewer recordings, up to
--excerpts evenly spread pieces of each. Measured: ViSQOL (audio mode), SI-SDR, mel distance, and PESQ and STOI on
speech. All are brought in time with the original. --goals judges every --codec by the goals of the built-in codec
(quality/goals.py). Codec2 and Lyra V2 (quality/speech_codecs.py says how to get them) are measured on speech only.
What was measured before is read from --out, so that another codec costs only its own time.

Needs pip install 'solfa[eval]', and opus-tools, lame and codec2 for --opus, --mp3 and --codec2. ViSQOL takes 0.3
core-seconds for a second of audio with numba (the extra `accel`), 2 without.
Writes index.html, summary.md, goals.md, results.csv, results.json, visqol.svg, spectrograms.svg, and the folder cache.
"""

import argparse
import logging
from collections import Counter
from pathlib import Path
from typing import get_args

from quality.clips import Kind, choose_clips, read_table
from quality.competitors import Backwards, BandLimit, Mp3, Opus, System, codec_systems, mulaw_systems
from quality.goals import judge, verdict_table, write_verdicts
from quality.measuring import measure_all, system_keys
from quality.metrics import versions
from quality.page import listening_clips, renditions, write_page
from quality.speech_codecs import Codec2, is_for, lyra_systems
from quality.summary import summarise, terminal_table, write_tables

from solfa.errors import ConfigError, SolfaError
from solfa.ui.terminal.console import console, errors, print_table, progress_bar, visible


def numbers(text: str) -> list[int]:
    """Read `1,2,4`."""
    try:
        values = [int(part) for part in text.split(",") if part]
    except ValueError:
        values = []
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"expected numbers such as 6,12,24, found {text!r}")
    return values


def positive(text: str) -> float:
    """Read a length of time."""
    seconds = float(text)
    if not 0 < seconds < 3600:
        raise argparse.ArgumentTypeError(f"expected seconds above 0, found {text}")
    return seconds


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("tables", nargs="+", type=Path, metavar="TABLE")
    made.add_argument("--kind", action="append", choices=get_args(Kind), help="only such sound; repeatable")
    made.add_argument("--codec", action="append", default=[], metavar="SPEC", help="what load_codec takes; repeatable")
    made.add_argument("--codebooks", type=numbers, default=[], help="numbers of codebooks, e.g. 1,2,4,8; else all")
    made.add_argument("--opus", type=numbers, default=[], help="target rates in kbit/s, e.g. 6,12,24")
    made.add_argument("--mp3", type=numbers, default=[], help="rates in kbit/s, e.g. 8,16,32")
    made.add_argument("--mulaw", action="store_true", help="mu-law with 8 bits at 8, 16 and 24 kHz")
    made.add_argument("--codec2", type=numbers, default=[], help="rates in bit/s, e.g. 1300,3200; on speech")
    made.add_argument("--lyra", type=Path, metavar="DIR", help="Lyra's .tflite files: 3.2, 6 and 9.2 kbit/s on speech")
    made.add_argument("--goals", action="store_true", help="judge every --codec by the goals of the built-in codec")
    made.add_argument("--control", action="store_true", help="the original backwards, to see what the measures miss")
    made.add_argument("--seconds", type=positive, default=10.0, help="length of an excerpt")
    made.add_argument("--clips", type=int, default=12, help="at most, of every table, kind and package")
    made.add_argument("--excerpts", type=int, default=1, help="of a recording, where there are few")
    made.add_argument("--listen", type=int, default=2, help="clips of every table and kind on the page")
    made.add_argument("--listen-seconds", type=positive, default=6.0, help="of each clip on the page")
    made.add_argument("--jobs", type=int, default=1, help="processes")
    made.add_argument("--out", type=Path, default=Path("report"))
    return made


def chosen_systems(options: argparse.Namespace) -> list[System]:
    """List what is compared, the band limit first."""
    systems: list[System] = [BandLimit(24_000), *codec_systems(options.codec, options.codebooks)]
    systems += [Opus(kbit) for kbit in options.opus]
    systems += [Mp3(kbit) for kbit in options.mp3]
    systems += mulaw_systems() if options.mulaw else []
    systems += [*(Codec2(rate) for rate in options.codec2), *lyra_systems(options.lyra)]
    systems += [Backwards(24_000)] if options.control else []
    twice = [name for name, number in Counter(system.name for system in systems).items() if number > 1]
    if twice:
        raise ConfigError(f"{twice[0]}: expected every system once, found it twice")
    return systems


def report(options: argparse.Namespace) -> None:
    systems = chosen_systems(options)
    packages = versions()
    keys = system_keys(systems, packages)
    kinds = options.kind or get_args(Kind)
    rows = [row for table in options.tables for row in read_table(table) if row.kind in kinds]
    clips = choose_clips(rows, options.clips, options.excerpts, options.seconds)
    if not clips:
        raise ConfigError(f"{', '.join(map(str, options.tables))}: expected recordings of at least 1 s, found none")
    with progress_bar("measuring", "clips × systems") as bar:
        measurements = measure_all(clips, systems, keys, options.out, bar, options.jobs)
    groups = summarise(measurements)
    write_tables(measurements, groups, packages, options.out)
    families = dict.fromkeys(system.family for system in codec_systems(options.codec, options.codebooks))
    verdicts = judge(measurements, list(families)) if options.goals else []
    if verdicts:
        write_verdicts(verdicts, options.out)
    heard = listening_clips(clips, options.listen)
    with progress_bar("writing the page", "clips") as bar:
        sounds = []
        for clip in heard:
            heard_after = [system for system in systems if is_for(system, clip.row.kind)]
            sounds.append((clip, renditions(clip, heard_after, options.listen_seconds)))
            bar(len(sounds), len(heard))
    write_page(groups, measurements, sounds, options.out)
    for group in groups:
        print_table(terminal_table(group))
    if verdicts:
        print_table(verdict_table(verdicts))
    console.print(f"Open {options.out / 'index.html'}", highlight=False, soft_wrap=True)


def main() -> None:
    logging.basicConfig(format="%(message)s")
    options = parser().parse_args()
    try:
        report(options)
    except SolfaError as error:
        errors.print(f"[red]error:[/] {visible(str(error))}", highlight=False, soft_wrap=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
