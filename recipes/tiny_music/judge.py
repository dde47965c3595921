"""Judge a model by machine listening: `python recipes/tiny_music/judge.py CORPUS OUT --model SIG`.

CORPUS is what `compose.py` wrote. The model plays its held-out captions. Beside it stand the held-out renders, which no
model can beat, and the same renders through the codec, which a model of its codes cannot beat: without --model, only
these ceilings are measured.

OUT/SET/NUMBER.wav      what was judged: the renders, the codec's round trips, the model's clips
OUT/report.json, .md    per set: family, tempo, key, faults, KAD against the renders, nearest training clip

What is there is kept: a second run goes on.
"""

import argparse
import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from families import FamilyClassifier, describe, train_classifier
from listening import Heard, Sound, listen
from wordings import SHARPS

import solfa
from solfa.audio import read_audio, write_audio
from solfa.codecs import DEFAULT_CODEC
from solfa.data import CopyFinder
from solfa.errors import SolfaError
from solfa.files import replace_atomically
from solfa.generate import ClipRequest

SECONDS = 10.0
TEMPO_WITHIN = 0.04
RENDERS = "renders"
NUM_TAUGHT = 600
"""Renders that the classifier is trained on, each also through the codec."""


@dataclass(frozen=True)
class Row:
    """What is known of a piece."""

    path: Path
    values: Mapping[str, str]

    @property
    def tonic(self) -> int | None:
        """The pitch class of the key; drums have none."""
        return SHARPS.index(self.values["tonic"]) if self.values["tonic"] else None


def read_table(path: Path, num: int) -> list[Row]:
    """Read the first rows of a table of `compose.py`."""
    with path.open(newline="", encoding="utf-8") as file:
        return [Row(path.parent / row["path"], row) for row, _ in zip(csv.DictReader(file), range(num), strict=False)]


def read_sound(path: Path, sample_rate: int) -> Sound:
    """Read a clip as mono `[N]`."""
    return np.asarray(read_audio(path, sample_rate=sample_rate, num_channels=1)[0], np.float32)


def through_codec(sound: Sound, codec: Any) -> Sound:
    """Encode and decode a clip."""
    with torch.inference_mode():
        return np.asarray(codec.decode(codec.encode(torch.from_numpy(sound)[None, None]))[0, 0].numpy(), np.float32)


def teach(corpus: Path, codecs: Sequence[Any], num: int) -> FamilyClassifier:
    """Train the classifier on renders, and on what each codec makes of them."""
    rows = read_table(corpus / "train.csv", num)
    descriptions, families = [], []
    for row in rows:
        sound = read_sound(row.path, codecs[0].sample_rate)
        for heard in (sound, *(through_codec(sound, codec) for codec in codecs)):
            descriptions.append(describe(heard, codecs[0].sample_rate))
            families.append(row.values["family"])
    return train_classifier(np.stack(descriptions), families)


def missing_files(folder: Path, rows: Sequence[Row]) -> Iterator[tuple[Row, Path]]:
    """List the clips of a set that are not there yet."""
    for number, row in enumerate(rows):
        path = folder / f"{number:03d}.wav"
        if not path.exists():
            yield row, path


def write_ceilings(out: Path, rows: Sequence[Row], codecs: Mapping[str, Any]) -> None:
    """Write the renders, and what the codecs make of them."""
    for row, path in missing_files(out / RENDERS, rows):
        rate = next(iter(codecs.values())).sample_rate
        write_audio(path, read_sound(row.path, rate)[None], rate)
    for name, codec in codecs.items():
        for row, path in missing_files(out / name, rows):
            write_audio(path, through_codec(read_sound(row.path, codec.sample_rate), codec)[None], codec.sample_rate)


def write_model(out: Path, rows: Sequence[Row], location: str, options: Mapping[str, Any]) -> str:
    """Have a model play every caption that it has not played yet; return the name of the set."""
    name = "model" + "".join(f", {key} {value:g}" for key, value in options.items())
    wanted = list(missing_files(out / name, rows))
    requests = [ClipRequest(path.stem, SECONDS, int(path.stem), row.values["caption"]) for row, path in wanted]
    if requests:
        for clip in solfa.load_model(location, device="cpu").draw(requests, **options):
            write_audio(out / name / f"{clip.name}.wav", clip.samples(), clip.sample_rate)
    return name


def judge_set(
    folder: Path, rows: Sequence[Row], classifier: FamilyClassifier, finder: CopyFinder | None, embedder: str
) -> dict[str, Any]:
    """Measure one set against what its captions say, and against the renders."""
    rate = 24_000
    sounds = [read_sound(folder / f"{number:03d}.wav", rate) for number in range(len(rows))]
    heard = [listen(sound, rate) for sound in sounds]
    families = classifier.classify(np.stack([describe(sound, rate) for sound in sounds]))
    pitched = [(row, one) for row, one in zip(rows, heard, strict=True) if row.tonic is not None]
    found = {
        "clips": len(rows),
        "family": _share(row.values["family"] == family for row, family in zip(rows, families, strict=True)),
        "tempo": _share(_tempo_is_right(row, one) for row, one in zip(rows, heard, strict=True)),
        "root": _share(row.tonic == one.tonic for row, one in pitched),
        "key": _share((row.tonic, row.values["mode"]) == (one.tonic, one.mode) for row, one in pitched),
        "silent": sum(one.is_silent for one in heard),
        "clipped": sum(one.is_clipped for one in heard),
    }
    kad = solfa.evaluate(folder, reference=folder.parent / RENDERS, metrics=["kad"], embedder=embedder)["kad"]
    found |= {"kad": kad.value, "kad_interval": [kad.interval.low, kad.interval.high], "kad_floor": kad.floor}
    if finder is not None:
        nearest = [finder.nearest(sound[None], rate) for sound in sounds]
        landmarks = [0 if copy is None else copy.landmarks for copy in nearest]
        found |= {"nearest_median": float(np.median(landmarks)), "nearest_most": max(landmarks)}
    return found


def _share(right: Iterator[bool]) -> float:
    return float(np.mean(list(right)))


def _tempo_is_right(row: Row, heard: Heard) -> bool:
    return abs(heard.bpm / float(row.values["bpm"]) - 1.0) <= TEMPO_WITHIN


def as_table(report: Mapping[str, Mapping[str, Any]]) -> str:
    """Lay out the report as a table in Markdown."""
    lines = [
        "| | clips | family | tempo within 4 % | root | key | silent | clipped | KAD | nearest: median, most |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, found in report.items():
        shares = " | ".join(f"{100 * found[part]:.0f} %" for part in ("family", "tempo", "root", "key"))
        low, high = found["kad_interval"]
        kad = f"{found['kad']:.2f} ({low:.2f} to {high:.2f})"
        near = f"{found['nearest_median']:.0f}, {found['nearest_most']}" if "nearest_most" in found else ""
        faults = f"{found['silent']} | {found['clipped']}"
        lines.append(f"| {name} | {found['clips']} | {shares} | {faults} | {kad} | {near} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the arguments, judge, and print the table."""
    parser = argparse.ArgumentParser(description="Judge a model, and the ceilings of its codec, by machine listening.")
    parser.add_argument("corpus", type=Path, metavar="CORPUS", help="What compose.py wrote.")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--model", metavar="SIG", help="An experiment, an exported folder or a name.")
    parser.add_argument("--codec", default=DEFAULT_CODEC)
    parser.add_argument("--codebooks", default="4,8", help="Whose round trips are measured.")
    parser.add_argument("--num", type=int, default=200, help="Held-out captions.")
    parser.add_argument("--taught", type=int, default=NUM_TAUGHT, help="Renders that the classifier is trained on.")
    parser.add_argument("--embedder", default="musicnn", help="What hears the KAD; mel needs no package.")
    parser.add_argument("--trained-on", metavar="DATASET", help="Look for the nearest clip among these.")
    parser.add_argument("--guidance", type=float, action="append", help="Instead of the model's own; may be repeated.")
    parser.add_argument("--temperature", type=float, help="Instead of the model's own.")
    arguments = parser.parse_args()
    try:
        rows = read_table(arguments.corpus / "held-out.csv", arguments.num)
        codecs = {
            f"{number} codebooks": solfa.load_codec(arguments.codec, num_codebooks=int(number))
            for number in arguments.codebooks.split(",")
        }
        write_ceilings(arguments.out, rows, codecs)
        sets = [RENDERS, *codecs]
        if arguments.model is not None:
            common = {} if arguments.temperature is None else {"temperature": arguments.temperature}
            for guidance in arguments.guidance or [None]:
                options = common if guidance is None else {**common, "guidance_scale": guidance}
                sets.append(write_model(arguments.out, rows, arguments.model, options))
        classifier = teach(arguments.corpus, list(codecs.values()), arguments.taught)
        finder = None if arguments.trained_on is None else CopyFinder.of(arguments.trained_on)
        report = {name: judge_set(arguments.out / name, rows, classifier, finder, arguments.embedder) for name in sets}
    except SolfaError as error:
        parser.exit(2, f"{error}\n")
    replace_atomically(arguments.out / "report.json", json.dumps(report, indent=2).encode())
    replace_atomically(arguments.out / "report.md", as_table(report).encode())
    print(as_table(report))


if __name__ == "__main__":
    main()
