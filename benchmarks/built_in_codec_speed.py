"""How fast the built-in codec encodes and decodes on one core, beside EnCodec 24 kHz in the loop that people write.

    python benchmarks/built_in_codec_speed.py [--clips 4] [--repeats 5] [--audio FOLDER]

Clips of 10 s, synthesised or cut from the recordings below FOLDER, one at a time, both with 8 codebooks. EnCodec is HF
transformers' module with random weights: its speed does not depend on them. The two take turns in one process of one
thread; printed are medians of audio-seconds per core-second.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from codec_speed import SECONDS, cut, synthesise
from ratios import Ratio, add_option, write_ratios
from torch import Tensor
from transformers import EncodecConfig, EncodecModel

import solfa

RATE = 24_000
KBIT_PER_SECOND = 6.0


def speed(work: Callable[[Tensor], object], clips: list[Tensor]) -> float:
    start = time.process_time()
    for clip in clips:
        work(clip)
    return SECONDS * len(clips) / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--audio", type=Path)
    add_option(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seeds = range(arguments.clips)
    sounds = [cut(arguments.audio, seed, RATE) if arguments.audio else synthesise(seed, RATE) for seed in seeds]
    clips = [torch.from_numpy(sound).float()[None, None] for sound in sounds]

    codec = solfa.load_codec("solfa_24khz")
    encodec = EncodecModel(EncodecConfig()).eval()
    ours = {id(clip): codec.encode(clip) for clip in clips}
    with torch.inference_mode():
        theirs = {id(clip): encodec.encode(clip, bandwidth=KBIT_PER_SECOND) for clip in clips}
        works: dict[str, Callable[[Tensor], object]] = {
            "encode, solfa_24khz": codec.encode,
            "encode, EnCodec": lambda clip: encodec.encode(clip, bandwidth=KBIT_PER_SECOND),
            "decode, solfa_24khz": lambda clip: codec.decode(ours[id(clip)]),
            "decode, EnCodec": lambda clip: encodec.decode(theirs[id(clip)].audio_codes, theirs[id(clip)].audio_scales),
        }
        rounds = [{name: speed(work, clips) for name, work in works.items()} for _ in range(arguments.repeats)]
    speeds = {name: median(figures[name] for figures in rounds) for name in works}
    for name, found in speeds.items():
        print(f"{name:22} {found:7.1f} audio-seconds per core-second")
    ratios = [
        Ratio(f"built-in codec, {way}", "EnCodec 24 kHz", speeds[f"{way}, solfa_24khz"] / speeds[f"{way}, EnCodec"])
        for way in ("encode", "decode")
    ]
    write_ratios(arguments.ratios, ratios)


if __name__ == "__main__":
    main()
