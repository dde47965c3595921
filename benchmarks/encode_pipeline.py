"""How fast is `solfa encode` as a whole, beside the loop that people write, and where does its time go?

    python benchmarks/encode_pipeline.py [--clips 16] [--rounds 3] [--encoders 1]

EnCodec at 32 kHz with its real architecture, random weights and codebooks drawn from its own outputs; 10 s clips. The
loop: soundfile, the processor of HF transformers, `model.encode`, `np.save`, one clip at a time, one thread. Solfa:
`solfa.encode` from the same folder to a dataset, one encoder process. Both in turn. Time is counted from the first clip
to the last, so that neither pays for importing torch; "inside the codec" is the share of the encoder's time in which it
was encoding rather than waiting for audio or for the disk. The codes of both are compared.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import soundfile
from codec_speed import SECONDS, build, synthesise

import solfa

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--encoders", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        clips = [synthesise(index, 32000) for index in range(options.clips)]
        build("encodec_32khz", work / "model", clips[:4])
        (work / "audio").mkdir()
        for index, clip in enumerate(clips):
            soundfile.write(work / f"audio/{index:03d}.wav", clip, 32000, subtype="FLOAT")
        seconds = options.clips * SECONDS
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
    print(f"ratio of the medians {statistics.median(ours) / statistics.median(loops):.2f}")
    print(f"inside the codec {statistics.median(shares):.1%}; codes that differ: {different}")


if __name__ == "__main__":
    main()
