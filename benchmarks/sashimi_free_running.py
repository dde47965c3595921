"""Do the networks of `sashimi_heads.py` still sound like their data when they hear nothing but themselves?

    python benchmarks/sashimi_free_running.py AUDIO... --out heads/ [--only dml-path-mulaw8] [--clips 32] [--seconds 4]

Takes the weights of all finished runs in --out, or of those that are named, and the same AUDIO. Every network reads
half a second of held-out recordings and goes on for --seconds at temperature 1. The table says by how many decibels it
is louder than the recordings really go on (over all clips, and in each second), how many samples it clips, what its own
draws cost it in bits per sample, and what the recordings do. The goals: within 1.5 dB, at most 0.1 % more clipped than
the recordings are, and at most 0.5 bits more. Intervals are of 95 %, over recordings. To choose settings, take
--of-training, which cuts the clips from recordings that were learned from. One thread.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from sashimi_heads import chosen
from waveform_heads.contenders import CONTENDERS, OTHER_INPUTS, WaveformModel
from waveform_heads.free_running import continuations, row, run_freely
from waveform_heads.recordings import read_split
from waveform_heads.training import Settings

from solfa.errors import ConfigError, SolfaError

PROMPT_SECONDS = 0.5


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("audio", nargs="+", type=Path, metavar="AUDIO")
    made.add_argument("--out", type=Path, required=True, help="the folder of sashimi_heads.py")
    made.add_argument("--only", default="", help="names of contenders, e.g. dml-path-mulaw8")
    made.add_argument("--sample-rate", type=int, default=16_000)
    made.add_argument("--clips", type=int, default=32)
    made.add_argument("--seconds", type=float, default=4.0)
    made.add_argument("--of-training", action="store_true", help="clips of recordings that were learned from")
    return made


def finished(folder: Path, wanted: str) -> list[Path]:
    """List the results of finished runs."""
    contenders = chosen(wanted) if wanted else (*CONTENDERS, *OTHER_INPUTS)
    found = [path for one in contenders for path in sorted(folder.glob(f"{one.name}-seed*.json"))]
    if not found:
        raise ConfigError(f"--out: expected finished runs, found none in {folder}; run benchmarks/sashimi_heads.py")
    return found


def load(path: Path) -> tuple[WaveformModel, str, int]:
    """Read a trained network, its title and its seed."""
    result = json.loads(path.read_text())
    (contender,) = chosen(result["name"])
    model = WaveformModel(contender, Settings(**result["settings"]).backbone, result["seed"])
    model.load_state_dict(load_file(path.with_suffix(".safetensors")))
    return model, result["title"], result["seed"]


def measure(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    prompt_samples = round(PROMPT_SECONDS * options.sample_rate)
    num_samples = prompt_samples + round(options.seconds * options.sample_rate)
    split = read_split(options.audio, options.sample_rate, num_samples)
    clips = continuations(split.train if options.of_training else split.held_out, options.clips, num_samples)
    recordings = f"{len(set(clips.recordings))} recordings{' learned from' if options.of_training else ''}"
    print(f"{len(clips.audio)} clips of {recordings}, {options.seconds:g} s after {PROMPT_SECONDS:g} s\n")
    print("| network | seed | louder, dB | by second | clipped | own bits | real bits | more | missed |")
    print("|---|---|---|---|---|---|---|---|---|")
    for path in finished(options.out, options.only):
        model, title, seed = load(path)
        run = run_freely(model.network, model.head, model.grid, clips, prompt_samples, options.sample_rate)
        print(row(title, seed, run), flush=True)


def main() -> None:
    try:
        measure(parser().parse_args())
    except SolfaError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
