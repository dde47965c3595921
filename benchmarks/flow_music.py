"""How far the clips of a flow model are from real ones, in the statistics of mel bands, and where noise would be.

    python benchmarks/flow_music.py SIG music.solfa [--clips 24] [--seconds 3.4] [--steps 50] [--picture OUT.png]

Frames of 64 mel bands in dB, of 43 ms, are taken for a Gaussian: the distance is Fréchet's, between two such fits. What
is real is decoded from the dataset's latents, so that the codec is on both sides. "latents of noise" are drawn for
every channel with the mean and deviation it has in the data, but without a model.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch

import solfa
from solfa.codecs import Encoded

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


def real_sounds(dataset: Any, codec: Any, places: range, num_frames: int) -> Sounds:
    sounds = []
    for place in places:
        array = torch.from_numpy(np.array(dataset[place].array, np.float32))
        begin = max(0, (len(array) - num_frames) // 2)
        part = array[None, begin : begin + num_frames]
        sounds.append(codec.decode(Encoded(part, part.shape[1] * codec.hop_length))[0].numpy())
    return sounds


def noise_sounds(dataset: Any, codec: Any, count: int, num_frames: int) -> Sounds:
    frames = np.concatenate([dataset[place].array for place in range(0, len(dataset), 4)]).astype(np.float32)
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
    parser.add_argument("--clips", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=3.4)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    model = solfa.load_model(options.experiment, device="cpu")
    dataset, codec = solfa.open_dataset(options.dataset), model.codec
    frames = round(options.seconds * codec.frame_rate)
    half = len(dataset) // 2
    groups = {
        "real": real_sounds(dataset, codec, range(0, len(dataset), 2)[: options.clips], frames),
        "other real": real_sounds(dataset, codec, range(1, 2 * half, 2)[: options.clips], frames),
        "drawn": [clip.samples() for clip in model.generate(
            seconds=options.seconds, num=options.clips, steps=options.steps, conditions={"seconds_total": 30.0}
        )],
        "latents of noise": noise_sounds(dataset, codec, options.clips, frames),
    }  # fmt: skip
    rng = np.random.default_rng(0)
    loudness = float(np.sqrt(np.mean([np.square(sound).mean() for sound in groups["real"]])))
    groups["white noise"] = [loudness * rng.standard_normal(sound.shape) for sound in groups["real"]]
    fits = {name: mel_frames(sounds, codec.sample_rate) for name, sounds in groups.items()}
    for name in list(groups)[1:]:
        print(f"{name:18} {frechet(fits['real'], fits[name]):9,.0f}")
    if options.picture is not None:
        shown = {name: groups[name] for name in ("real", "drawn", "latents of noise")}
        draw_picture(shown, codec.sample_rate, options.picture)


if __name__ == "__main__":
    main()
