"""How fast is `solfa encode` as a whole, beside the loop that people write, and where does its time go?

    python benchmarks/encode_pipeline.py [--clips 16] [--rounds 3] [--encoders 1]
    python benchmarks/encode_pipeline.py --compare-encoders 1 2 --clips 12 [--codec solfa_24khz]

EnCodec at 32 kHz with its real architecture, random weights and codebooks drawn from its own outputs; 10 s clips. The
loop: soundfile, the processor of HF transformers, `model.encode`, `np.save`, one clip at a time, one thread. Solfa:
`solfa.encode` from the same folder to a dataset, one encoder process. Both in turn. Time is counted from the first clip
to the last, so that neither pays for importing torch; "inside the codec" is the share of the encoder's time in which it
was encoding rather than waiting for audio or for the disk. The codes of both are compared.

With --compare-encoders there is no loop: two minutes of audio (12 clips) are encoded by one process and by two, in
turn. The whole call counts there, imports and all, because that is what somebody waits for; beside it the time from the
first clip to the last, and the CPU time of the encoders, which two cores share. The datasets have to be the same. With
--codec it is another codec than EnCodec at 32 kHz. Cores of a rented machine may be halves of one, or share it with
others, and all share its memory: so in every round a clip is also encoded several times in one process and in as many
as there are encoders, which do nothing else: about what encoders can gain.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from codec_speed import SECONDS, build, synthesise
from ratios import Ratio, add_option, write_ratios

import solfa
from solfa.environment import worker_environment

RATE = 32_000

LOOP = """
import json, sys, time
from pathlib import Path
import numpy as np, soundfile, torch
from transformers import AutoFeatureExtractor, EncodecModel
torch.set_num_threads(1)
folder, out = Path(sys.argv[1]), Path(sys.argv[2])
model = EncodecModel.from_pretrained(sys.argv[3]).eval()
processor = AutoFeatureExtractor.from_pretrained(sys.argv[3])
out.mkdir(parents=True, exist_ok=True)
started = time.monotonic()
for path in sorted(folder.glob("*.wav")):
    audio, rate = soundfile.read(path, dtype="float32")
    inputs = processor(raw_audio=audio, sampling_rate=rate, return_tensors="pt")
    with torch.no_grad():
        codes = model.encode(inputs["input_values"], inputs["padding_mask"]).audio_codes
    np.save(out / f"{path.stem}.npy", codes[0, 0].numpy())
print(json.dumps(time.monotonic() - started))
"""

BARE_CLIPS = 6
BARE = """
import sys, time
import numpy as np, torch
import solfa
torch.set_num_threads(1)
codec = solfa.load_codec(sys.argv[1])
clip = torch.from_numpy(np.load(sys.argv[2]))[None, None]
started = time.monotonic()
codec.encode(clip)
first = time.monotonic() - started
print("ready", flush=True)
sys.stdin.readline()
started = time.monotonic()
for _ in range(int(sys.argv[3])):
    codec.encode(clip)
print(first, time.monotonic() - started)
"""


class Turn(NamedTuple):
    """What one call of `solfa.encode` took, in seconds."""

    whole: float
    encoding: float
    """From the first clip to the last."""
    cpu: float
    digest: str


def encode_once(audio: Path, dest: Path, codec: str, encoders: int) -> Turn:
    """Encode a folder with so many encoder processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    report = solfa.encode(audio, dest, codec=codec, num_encoders=encoders)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert not report.failures, report.failures
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Turn(report.elapsed_seconds, report.encode_seconds, cpu, solfa.open_dataset(dest).digest)


class Bare(NamedTuple):
    """What processes that only encode took for a clip, in seconds; the slowest of them."""

    first: float
    later: float


def encode_barely(work: Path, codec: str, processes: int) -> Bare:
    """Encode `BARE_CLIPS` in each of so many processes, side by side, after a first one to touch memory."""
    run = [sys.executable, "-c", BARE, codec, str(work / "clip.npy"), str(BARE_CLIPS)]
    environment = worker_environment(os.environ, one_thread=True)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(run, env=environment, **pipes) for _ in range(processes)]
    for process in started:
        process.stdout.readline()
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    taken = [[float(seconds) for seconds in process.communicate()[0].split()] for process in started]
    first, later = (max(seconds) for seconds in zip(*taken, strict=True))
    return Bare(first, later / BARE_CLIPS)


def compare_encoders(work: Path, codec: str, counts: Sequence[int], rounds: int, seconds: float) -> list[Ratio]:
    """Encode the same audio with these numbers of encoders, in turn, after a round that does not count."""
    turns: dict[int, list[Turn]] = {count: [] for count in counts}
    bare: dict[int, list[Bare]] = {count: [] for count in counts}
    for number in range(rounds + 1):
        for count in counts:
            alone = encode_barely(work, codec, count)
            bare[count] += [alone] if number else []
            turn = encode_once(work / "audio", work / f"{number}-{count}.solfa", codec, count)
            turns[count] += [turn] if number else []
    if len({turn.digest for some in turns.values() for turn in some}) > 1:
        sys.exit("the datasets differ, which they must not: the number of encoders plays no part in what is encoded")
    middle = {
        count: [statistics.median(turn[place] for turn in some) for place in range(3)] for count, some in turns.items()
    }
    for count, (whole, encoding, cpu) in middle.items():
        told = f"{whole:.2f} s in all, {encoding:.2f} s from first clip to last, {cpu:.2f} s of CPU in the encoders"
        print(f"{count} encoders, {seconds:.0f} s of audio: {told}")
    for count, some in bare.items():
        first, later = (statistics.median(seconds) for seconds in zip(*some, strict=True))
        print(f"{count} processes that only encode: {first:.2f} s for a first clip of each, {later:.2f} s for another")
    one = middle[counts[0]]
    ratios = []
    for count in counts[1:]:
        whole, encoding = (one[place] / middle[count][place] for place in range(2))
        print(f"{count} encoders are through {whole:.2f} times as soon as {counts[0]}; encoding alone {encoding:.2f}")
        pairs = zip(bare[counts[0]], bare[count], strict=True)
        shares = [count / counts[0] * alone.later / beside.later for alone, beside in pairs]
        told = f"{statistics.median(shares):.2f} times as fast, between {min(shares):.2f} and {max(shares):.2f}"
        print(f"{count} processes that only encode, after a first clip, beside {counts[0]}: {told}")
        name = f"{count} encoders, {seconds:.0f} s of audio"
        ratios.append(Ratio(name, f"{counts[0]} encoder", encoding, goal=0.95 * count / counts[0]))
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--encoders", type=int, default=1)
    parser.add_argument("--compare-encoders", type=int, nargs="+", metavar="N", help="no loop: these numbers, in turn")
    parser.add_argument("--codec", help="with --compare-encoders: another codec than EnCodec at 32 kHz")
    add_option(parser)
    options = parser.parse_args()
    if options.codec and not options.compare_encoders:
        parser.error("--codec goes with --compare-encoders: the loop is that of EnCodec")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        clips = [synthesise(index, RATE) for index in range(options.clips)]
        if not options.codec:
            build("encodec_32khz", work / "model", clips[:4])
        (work / "audio").mkdir()
        for index, clip in enumerate(clips):
            soundfile.write(work / f"audio/{index:03d}.wav", clip, RATE, subtype="FLOAT")
        seconds = options.clips * SECONDS
        if options.compare_encoders:
            np.save(work / "clip.npy", clips[0])
            codec = options.codec or str(work / "model")
            found = compare_encoders(work, codec, options.compare_encoders, options.rounds, seconds)
            write_ratios(options.ratios, found)
            return
        loops, ours, shares, different = [], [], [], 0
        for number in range(options.rounds):
            run = [sys.executable, "-c", LOOP, str(work / "audio"), str(work / "npy"), str(work / "model")]
            loops.append(seconds / json.loads(subprocess.run(run, capture_output=True, text=True, check=True).stdout))
            dest = work / f"{number}.solfa"
            report = solfa.encode(work / "audio", dest, codec=str(work / "model"), num_encoders=options.encoders)
            ours.append(report.speed)
            shares.append(report.codec_share)
            for clip in solfa.open_dataset(dest):
                theirs = np.load(work / "npy" / f"{Path(clip.id).stem}.npy").T
                different += int((theirs != clip.array).sum())
    print(f"audio-seconds per second: loop {statistics.median(loops):.2f}, Solfa {statistics.median(ours):.2f}")
    ratio = statistics.median(ours) / statistics.median(loops)
    print(f"ratio of the medians {ratio:.2f}")
    write_ratios(options.ratios, [Ratio("the whole pipeline, encodec_32khz", "the loop", ratio)])
    print(f"inside the codec {statistics.median(shares):.1%}; codes that differ: {different}")


if __name__ == "__main__":
    main()
