"""What does a collection of tiny clips cost: `solfa encode`, beside the loop that people write?

    python benchmarks/tiny_clips.py [--clips 10000] [--rounds 3] [--codec mulaw]

WAV files of 25 to 125 ms, a thousand to a folder, of as many different lengths as there are samples between the two.
The loop: soundfile, `codec.encode`, `np.save`, one clip at a time, one thread. Solfa: `solfa encode` with one encoder,
which also plans, checks, hashes, syncs and commits. Both are commands of their own, in turn. The figures are seconds
of CPU (user and system) of each command and of all its processes, with and without those that a single clip alone
takes (importing torch, mostly). The arrays of both are compared, and the digests of all of Solfa's datasets.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from ratios import Ratio, add_option, write_ratios

import solfa

LOOP = """
import sys
from pathlib import Path
import numpy as np, soundfile, torch, solfa
torch.set_num_threads(1)
codec = solfa.load_codec(sys.argv[3])
folder, out = Path(sys.argv[1]), Path(sys.argv[2])
for path in sorted(folder.rglob("*.wav")):
    audio, rate = soundfile.read(path, dtype="float32")
    with torch.no_grad():
        codes = codec.encode(torch.from_numpy(audio)[None, None]).array[0].numpy()
    place = out / path.relative_to(folder).with_suffix(".npy")
    place.parent.mkdir(parents=True, exist_ok=True)
    np.save(place, codes.astype(np.uint16))
"""


def make(folder: Path, num_clips: int, sample_rate: int) -> None:
    """Write short decaying noises."""
    rng = np.random.default_rng(0)
    for index, num_samples in enumerate(rng.integers(sample_rate // 40, sample_rate // 8, num_clips)):
        path = folder / f"{index // 1000:03d}" / f"{index % 1000:03d}.wav"
        path.parent.mkdir(parents=True, exist_ok=True)
        audio = rng.standard_normal(num_samples) * np.exp(-np.arange(num_samples) / (0.02 * sample_rate))
        soundfile.write(path, 0.1 * audio, sample_rate)


def cpu_seconds(command: list[str]) -> float:
    """Run a command; return what it and its children used."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands(audio: Path, work: Path, codec: str) -> dict[str, list[str]]:
    """Write down both ways from a folder of audio to arrays."""
    solfa_encode = [sys.executable, "-m", "solfa", "encode", str(audio), str(work / "ours.solfa"), "--codec", codec]
    return {
        "loop": [sys.executable, "-c", LOOP, str(audio), str(work / "npy"), codec],
        "solfa": [*solfa_encode, "--num-encoders", "1"],
    }


def clear(work: Path) -> None:
    for name in ("npy", "ours.solfa"):
        shutil.rmtree(work / name, ignore_errors=True)


def count_different(work: Path) -> int:
    """Count the clips whose arrays are not those of the loop."""
    dataset = solfa.open_dataset(work / "ours.solfa")
    return sum(
        not np.array_equal(np.load((work / "npy" / clip.id).with_suffix(".npy")), clip.array) for clip in dataset
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--codec", default="mulaw")
    add_option(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        rate = solfa.load_codec(options.codec).sample_rate
        make(work / "one", 1, rate)
        make(work / "audio", options.clips, rate)
        spent: dict[str, list[float]] = {"loop": [], "solfa": []}
        start: dict[str, list[float]] = {"loop": [], "solfa": []}
        digests, different = set(), 0
        for _ in range(options.rounds):
            for role, command in commands(work / "one", work, options.codec).items():
                start[role].append(cpu_seconds(command))
            clear(work)
            for role, command in commands(work / "audio", work, options.codec).items():
                spent[role].append(cpu_seconds(command))
            digests.add(solfa.open_dataset(work / "ours.solfa").digest)
            different += count_different(work)
            clear(work)
    totals = {role: statistics.median(values) for role, values in spent.items()}
    starts = {role: statistics.median(values) for role, values in start.items()}
    work_seconds = {role: totals[role] - starts[role] for role in totals}
    print(f"{'CPU seconds':<28}{'loop':>8}{'Solfa':>8}{'ratio':>8}")
    for title, values in {"all": totals, "for one clip": starts, "for the other clips": work_seconds}.items():
        print(f"{title:<28}{values['loop']:>8.2f}{values['solfa']:>8.2f}{values['solfa'] / values['loop']:>8.2f}")
    ratio = totals["solfa"] / totals["loop"]
    write_ratios(options.ratios, [Ratio("tiny clips, CPU time", "a loop with np.save", ratio, 2.0, "lower")])
    print(f"clips that differ: {different}; digests of {options.rounds} datasets: {', '.join(sorted(digests))}")


if __name__ == "__main__":
    main()
