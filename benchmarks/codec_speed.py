"""How fast codecs encode on one CPU core, beside the loop that people write.

    python benchmarks/codec_speed.py [--codec encodec_32khz] [--repeats 5] [--clips 16] [--audio FOLDER]

The loop: soundfile, the processor of HF transformers, `model.encode`, one clip of 10 s at a time. Ours: the encoder of
`solfa.codecs.cpu` over a batch of the same clips, in a process started with `worker_environment`. Both run in
processes of their own, one thread each, in turn; the figures are medians of audio-seconds per core-second
(`time.process_time`, after one clip to warm up). The models have the real architectures and random weights, with
codebooks drawn from the encoder's own outputs, so that every code is used and near ties occur as they do in practice.
Clips are synthesised, or cut from the recordings below FOLDER.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr

from solfa.environment import worker_environment

SECONDS = 10
ENCODEC_32KHZ = {
    "sampling_rate": 32000,
    "upsampling_ratios": [8, 5, 4, 4],
    "target_bandwidths": [2.2],
    "num_filters": 64,
    "codebook_size": 2048,
    "use_causal_conv": False,
    "use_conv_shortcut": False,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "encodec_32khz": ENCODEC_32KHZ,
    "encodec_24khz": {"target_bandwidths": [6.0]},
    "dac_44khz": {"sampling_rate": 44100, "downsampling_ratios": [2, 4, 8, 8]},
}


def synthesise(seed: int, sample_rate: int) -> np.ndarray:
    """Ten seconds of plucked chords over noise bursts: tones, decays, attacks and near silence."""
    rng = np.random.default_rng(seed)
    time_axis = np.arange(SECONDS * sample_rate) / sample_rate
    audio = 1e-3 * rng.standard_normal(len(time_axis))
    for start in np.cumsum(rng.uniform(0.1, 0.5, 40)):
        after = np.clip(time_axis - start, 0, None) * (time_axis > start)
        for pitch in 110 * 2 ** (rng.integers(0, 36, 3) / 12):
            for harmonic in range(1, 7):
                tone = np.sin(2 * np.pi * pitch * harmonic * after) * np.exp(-after * (2 + harmonic))
                audio += rng.uniform(0.1, 0.4) / harmonic * tone
        audio += (time_axis > start) * np.exp(-40 * after) * rng.standard_normal(len(after)) * rng.uniform(0, 0.3)
    return (audio / np.abs(audio).max() * 0.8).astype(np.float32)


def cut(folder: Path, seed: int, sample_rate: int) -> np.ndarray:
    """Ten seconds from somewhere in one of the recordings below `folder`."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in (".wav", ".flac", ".ogg", ".mp3", ".opus")]
    rng = np.random.default_rng(seed)
    path = files[seed % len(files)]
    info = soundfile.info(path)
    start = int(rng.integers(0, max(1, info.frames - (SECONDS + 1) * info.samplerate)))
    audio, rate = soundfile.read(path, (SECONDS + 1) * info.samplerate, start, dtype="float32", always_2d=True)
    mono = soxr.resample(audio.mean(1), rate, sample_rate)[: SECONDS * sample_rate]
    return np.pad(mono, (0, SECONDS * sample_rate - len(mono)))


def build(codec: str, folder: Path, audio: list[np.ndarray]) -> None:
    """Save a random model of the real size whose codewords are outputs of its own encoder."""
    import torch
    from transformers import (
        DacConfig,
        DacFeatureExtractor,
        DacModel,
        EncodecConfig,
        EncodecFeatureExtractor,
        EncodecModel,
    )

    torch.manual_seed(0)
    rate = {"sampling_rate": CONFIGS[codec].get("sampling_rate", 24000)}
    with torch.inference_mode():
        batch = torch.from_numpy(np.stack(audio))[:, None]
        if codec.startswith("encodec"):
            model = EncodecModel(EncodecConfig(**CONFIGS[codec])).eval()
            EncodecFeatureExtractor(**rate).save_pretrained(folder)
            residual = torch.cat([model.encoder(clip[None]) for clip in batch]).mT.flatten(0, 1)
            for layer in model.quantizer.layers:
                chosen = torch.randperm(len(residual))[: len(layer.codebook.embed)]
                layer.codebook.embed[: len(chosen)] = residual[chosen]
                residual = residual - layer.codebook.decode(layer.codebook.encode(residual))
        else:
            model = DacModel(DacConfig(**CONFIGS[codec])).eval()
            DacFeatureExtractor(**rate, hop_length=model.config.hop_length).save_pretrained(folder)
            residual = torch.cat([model.encoder(clip[None]) for clip in batch])
            for quantizer in model.quantizer.quantizers:
                latents = quantizer.in_proj(residual).mT.flatten(0, 1)
                chosen = torch.randperm(len(latents))[: len(quantizer.codebook.weight)]
                quantizer.codebook.weight[: len(chosen)] = latents[chosen]
                residual = residual - quantizer(residual)[0]
    model.save_pretrained(folder)


def load(codec: str, folder: Path) -> Any:
    from transformers import DacModel, EncodecModel

    return (EncodecModel if codec.startswith("encodec") else DacModel).from_pretrained(folder).eval()


def loop_of_a_user(codec: str, folder: Path, paths: list[Path]) -> tuple[float, np.ndarray]:
    import torch
    from transformers import AutoFeatureExtractor

    torch.set_num_threads(1)
    model, processor = load(codec, folder), AutoFeatureExtractor.from_pretrained(folder)

    def encode(path: Path) -> np.ndarray:
        audio, rate = soundfile.read(path, dtype="float32")
        inputs = processor(raw_audio=audio, sampling_rate=rate, return_tensors="pt")
        with torch.no_grad():
            if codec.startswith("encodec"):
                return model.encode(inputs["input_values"], inputs["padding_mask"]).audio_codes[0, 0].numpy()
            return model.encode(inputs["input_values"]).audio_codes[0].numpy()

    encode(paths[0])
    start = time.process_time()
    codes = [encode(path) for path in paths]
    return time.process_time() - start, np.stack(codes)


def ours(codec: str, folder: Path, paths: list[Path]) -> tuple[float, np.ndarray]:
    import torch

    from solfa.codecs.cpu.dac_encoder import fast_dac_encoder
    from solfa.codecs.cpu.encodec_encoder import fast_encodec_encoder

    torch.set_num_threads(1)
    model = load(codec, folder)
    encoder = fast_encodec_encoder(model) if codec.startswith("encodec") else fast_dac_encoder(model.encoder)

    def quantize(embeddings: torch.Tensor) -> torch.Tensor:
        if codec.startswith("encodec"):
            return model.quantizer.encode(embeddings).transpose(0, 1)
        return model.quantizer(embeddings)[1]

    @torch.inference_mode()
    def encode(paths: list[Path]) -> np.ndarray:
        audio = torch.from_numpy(np.stack([soundfile.read(path, dtype="float32")[0] for path in paths]))[:, None]
        if codec.startswith("dac"):  # As its processor does.
            audio = torch.nn.functional.pad(audio, (0, -audio.shape[-1] % model.config.hop_length))
        # Clip by clip: the distances of a whole batch to all codewords would not fit the cache.
        return torch.cat([quantize(embeddings) for embeddings in encoder(audio).split(1)]).numpy()

    encode(paths[:1])
    start = time.process_time()
    codes = encode(paths)
    return time.process_time() - start, codes


def measure(role: str, codec: str, folder: Path) -> tuple[float, np.ndarray]:
    """Run one side in a process of its own; return core-seconds and codes."""
    environment = dict(os.environ) if role == "loop" else worker_environment(os.environ, one_thread=True)
    command = [sys.executable, __file__, "--codec", codec, "--role", role, "--folder", str(folder)]
    seconds = json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)
    return seconds, np.load(folder / f"{role}.npy")


def compare(codec: str, repeats: int, num_clips: int, recordings: Path | None) -> None:
    rate = CONFIGS[codec].get("sampling_rate", 24000)

    def clip(seed: int) -> np.ndarray:
        return synthesise(seed, rate) if recordings is None else cut(recordings, seed, rate)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(codec, folder, [clip(1000 + seed) for seed in range(2 if codec.startswith("dac") else 6)])
        for seed in range(num_clips):
            soundfile.write(folder / f"{seed:03d}.wav", clip(seed), rate, subtype="FLOAT")
        speeds: dict[str, list[float]] = {"loop": [], "ours": []}
        codes = {}
        for _ in range(repeats):
            for role, values in speeds.items():
                seconds, codes[role] = measure(role, codec, folder)
                values.append(num_clips * SECONDS / seconds)
    medians = {role: statistics.median(values) for role, values in speeds.items()}
    differing = int((codes["loop"] != codes["ours"]).sum())
    print(f"{'codec':<16}{'loop':>8}{'ours':>8}{'ratio':>8}{'codes':>10}{'differ':>8}{'used':>8}")
    print(
        f"{codec:<16}{medians['loop']:>8.2f}{medians['ours']:>8.2f}{medians['ours'] / medians['loop']:>8.2f}"
        f"{codes['loop'].size:>10}{differing:>8}{len(np.unique(codes['loop'])):>8}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codec", choices=[*CONFIGS, "all"], default="all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clips", type=int, default=16, help="in one batch of ours; DAC takes an eighth of them")
    parser.add_argument("--audio", type=Path, help="a folder of recordings to cut the clips from")
    parser.add_argument("--role", choices=["loop", "ours"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role is None:
        for codec in CONFIGS if options.codec == "all" else [options.codec]:
            num_clips = max(1, options.clips // 8) if codec.startswith("dac") else options.clips
            compare(codec, options.repeats, num_clips, options.audio)
        return
    side = loop_of_a_user if options.role == "loop" else ours
    seconds, codes = side(options.codec, options.folder, sorted(options.folder.glob("*.wav")))
    np.save(options.folder / f"{options.role}.npy", codes)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
