"""EnCodec's encoder beside the runtimes that a careful user would export it to: onnxruntime and OpenVINO, in float32.

    python benchmarks/codec_runtimes.py [--codec encodec_32khz] [--repeats 5] [--clips 8] [--audio FOLDER]

The runtimes get an environment of their own (`--environment DIR`, made with pip where it is missing), because what they
need does not belong among Solfa's packages. Each side is a process of one thread, in turn, and encodes the same files
to codes: a user's loop with transformers, the exported graph one clip at a time, Solfa with all clips as a batch.
Figures are medians of audio-seconds per core-second, after one clip to warm up. Random weights, with codebooks drawn
from the encoder's own outputs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import soundfile
from codec_speed import CONFIGS, SECONDS, build, cut, measure, synthesise
from peers.environments import python_of
from ratios import Ratio, add_option, write_ratios

from solfa.environment import worker_environment

PACKAGES = ("onnx", "onnxscript", "onnxruntime", "openvino", "soundfile", "transformers>=5.21,<6")
RUNTIMES = ("onnxruntime", "openvino")
CODECS = ("encodec_32khz", "encodec_24khz")
SCRIPT = Path(__file__).parent / "peers" / "encoder_runtimes.py"


def measure_runtime(python: Path, runtime: str, folder: Path) -> tuple[float, np.ndarray]:
    """Run one runtime in a process of its own, with the allocator's settings that Solfa's encoders get."""
    environment = worker_environment(os.environ, one_thread=True)
    command = [str(python), str(SCRIPT), runtime, str(folder)]
    result = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout.splitlines()[-1]), np.load(folder / f"{runtime}.npy")


def compare(options: argparse.Namespace, python: Path) -> list[Ratio]:
    rate = CONFIGS[options.codec].get("sampling_rate", 24000)

    def clip(seed: int) -> np.ndarray:
        whole = synthesise(seed, rate) if options.audio is None else cut(options.audio, seed, rate)
        return whole[: round(options.seconds * rate)]

    roles = ("tuned", *RUNTIMES, "ours")
    speeds: dict[str, list[float]] = {role: [] for role in roles}
    codes: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(options.codec, folder, [clip(1000 + seed) for seed in range(6)])
        for seed in range(options.clips):
            soundfile.write(folder / f"{seed:03d}.wav", clip(seed), rate, subtype="FLOAT")
        for _ in range(options.repeats):
            for role, found in speeds.items():
                one = (
                    measure_runtime(python, role, folder) if role in RUNTIMES else measure(role, options.codec, folder)
                )
                found.append(options.clips * options.seconds / one[0])
                codes[role] = one[1]
    medians = {role: statistics.median(found) for role, found in speeds.items()}
    print(f"{options.codec}: audio-seconds per core-second, {options.repeats} rounds")
    for role, speed in medians.items():
        different = int((codes[role] != codes["tuned"]).sum())
        print(f"  {role:<14}{speed:>8.2f}   Solfa is {medians['ours'] / speed:.2f}x   ", end="")
        print(f"{different} of {codes['tuned'].size} codes differ from the loop's")
    return [Ratio(f"encoding, {options.codec}", role, medians["ours"] / medians[role], 1.0) for role in RUNTIMES]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codec", choices=CODECS, default=CODECS[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clips", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--audio", type=Path, help="a folder of recordings to cut the clips from")
    parser.add_argument(
        "--environment", type=Path, default=Path(".venv-peers/runtimes"), help="where the runtimes are or come"
    )
    add_option(parser)
    options = parser.parse_args(arguments)
    torch = f"torch=={version('torch').split('+')[0]}"  # alone, or a build with CUDA comes
    write_ratios(options.ratios, compare(options, python_of(options.environment, [torch], PACKAGES)))


if __name__ == "__main__":
    main(sys.argv[1:])
