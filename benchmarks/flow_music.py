"""How far the clips of a flow model are from real ones, in the statistics of mel bands, and where noise would be.

    python benchmarks/flow_music.py SIG music.solfa [--hold-out 0.1] [--clips 24] [--seconds 3.4] [--steps 50] \
        [--picture OUT.png] [--audio DIR]

The reference are excerpts of the recordings that the run held out (with `dset.hold_out.fraction` as given), which the
model never saw; every second excerpt is kept apart, to tell how far real music of these recordings is from itself.
Frames of 64 mel bands in dB, of 43 ms, are taken for a Gaussian: the distance is Fréchet's, between two such fits. What
is real is decoded from the dataset's latents, so that the codec is on both sides. "latents of noise" are drawn for
every channel with the mean and deviation it has in the data, but without a model. `--audio` writes every group into a
folder of its own, for `solfa evaluate DIR/drawn --reference DIR/held-out --metrics kad`.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

import solfa
from solfa.audio import write_audio
from solfa.codecs import Encoded
from solfa.data import Dset, HoldOut, Source, open_stage

BANDS, WINDOW = 64, 1024
Sounds = list[np.ndarray[Any, Any]]


def mel_filters(sample_rate: int) -> torch.Tensor:
    edges = torch.linspace(0, 2595 * np.log10(1 + sample_rate / 2 / 700), BANDS + 2, dtype=torch.float64)
    hertz = 700 * (10 ** (edges / 2595) - 1)
    bins = torch.linspace(0, sample_rate / 2, WINDOW // 2 + 1, dtype=torch.float64)
    up = (bins - hertz[:-2, None]) / (hertz[1:-1] - hertz[:-2])[:, None]
    down = (hertz[2:, None] - bins) / (hertz[2:] - hertz[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


def mel_frames(sounds: Sounds, sample_rate: int) -> np.ndarray[Any, Any]:
    filters, found = mel_filters(sample_rate), []
    for sound in sounds:
        window = torch.hann_window(WINDOW, dtype=torch.float64)
        wave = torch.from_numpy(np.asarray(sound, np.float64))
        spectrum = torch.stft(wave, WINDOW, WINDOW // 2, window=window, return_complex=True).abs() ** 2
        found.append(10 * torch.log10(filters @ spectrum[0] + 1e-6).T.numpy())
    return np.concatenate(found)


def frechet(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> float:
    apart = one.mean(axis=0) - other.mean(axis=0)
    first, second = np.cov(one.T), np.cov(other.T)
    values = np.linalg.eigvals(first @ second)
    root = np.sqrt(np.maximum(values.real, 0)).sum()
    return float(apart @ apart + np.trace(first) + np.trace(second) - 2 * root)


def real_sounds(source: Any, codec: Any, count: int, num_frames: int) -> Sounds:
    """Decode `count` excerpts, evenly spread over all clips of a source."""
    places = [(clip, begin) for clip, total in enumerate(source.num_frames.tolist())
              for begin in range(0, total - num_frames + 1, num_frames)]  # fmt: skip
    sounds = []
    for clip, begin in (places[index * len(places) // count] for index in range(min(count, len(places)))):
        part = torch.from_numpy(np.array(source[clip].array[begin : begin + num_frames], np.float32))[None]
        sounds.append(codec.decode(Encoded(part, part.shape[1] * codec.hop_length))[0].numpy())
    return sounds


def noise_sounds(source: Any, codec: Any, count: int, num_frames: int) -> Sounds:
    frames = np.concatenate([source[place].array for place in range(0, len(source), 4)]).astype(np.float32)
    mean, std = torch.from_numpy(frames.mean(axis=0)), torch.from_numpy(frames.std(axis=0))
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(count, num_frames, len(mean), generator=generator) * std + mean
    return [codec.decode(Encoded(row[None], num_frames * codec.hop_length))[0].numpy() for row in drawn]


def draw_picture(groups: dict[str, Sounds], sample_rate: int, path: Path) -> None:
    """One row of four spectrograms for each group."""
    from PIL import Image

    rows = []
    for sounds in groups.values():
        pictures = [mel_frames([sound], sample_rate).T[::-1] for sound in sounds[:4]]
        rows.append(np.concatenate([np.pad(p, ((2, 2), (2, 2)), constant_values=20) for p in pictures], axis=1))
    width = min(row.shape[1] for row in rows)
    levels = np.concatenate([row[:, :width] for row in rows])
    grey = np.clip((levels + 40) / 70 * 255, 0, 255).astype(np.uint8)
    Image.fromarray(grey).resize((width * 2, len(grey) * 2), Image.Resampling.NEAREST).save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment")
    parser.add_argument("dataset")
    parser.add_argument("--hold-out", type=float, default=0.1)
    parser.add_argument("--clips", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=3.4)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--audio", type=Path)
    options = parser.parse_args()
    model = solfa.load_model(options.experiment, device="cpu")
    codec = model.codec
    dset = Dset(train=[Source(path=options.dataset)], hold_out=HoldOut(fraction=options.hold_out))
    held_out, trained_on = open_stage(dset, "valid"), open_stage(dset, "train")
    frames, count = round(options.seconds * codec.frame_rate), options.clips
    both = real_sounds(held_out, codec, 2 * count, frames)
    drawn = model.generate(
        seconds=options.seconds, num=count, steps=options.steps, conditions={"seconds_total": 30.0}
    )  # fmt: skip
    groups = {
        "held-out": both[::2],
        "other excerpts of these": both[1::2],
        "trained on": real_sounds(trained_on, codec, count, frames),
        "drawn": [clip.samples() for clip in drawn],
        "latents of noise": noise_sounds(trained_on, codec, count, frames),
    }
    rng = np.random.default_rng(0)
    loudness = float(np.sqrt(np.mean([np.square(sound).mean() for sound in groups["held-out"]])))
    groups["white noise"] = [loudness * rng.standard_normal(sound.shape) for sound in groups["held-out"]]
    fits = {name: mel_frames(sounds, codec.sample_rate) for name, sounds in groups.items()}
    for name in list(groups)[1:]:
        print(f"{name:24} {frechet(fits['held-out'], fits[name]):9,.0f}")
    if options.audio is not None:
        for name, sounds in groups.items():
            for number, sound in enumerate(sounds):
                place = options.audio / name.replace(" ", "-") / f"{number:03d}.wav"
                place.parent.mkdir(parents=True, exist_ok=True)
                write_audio(place, np.asarray(sound, np.float32), codec.sample_rate)
    if options.picture is not None:
        shown = {name: groups[name] for name in ("held-out", "drawn", "latents of noise")}
        draw_picture(shown, codec.sample_rate, options.picture)


if __name__ == "__main__":
    main()
