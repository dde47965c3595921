"""How fast codecs encode on one CPU core, beside the loop that people write.

    python benchmarks/codec_speed.py [--codec encodec_32khz] [--repeats 5] [--clips 16] [--seconds 10] [--audio FOLDER]

The loop: soundfile, the processor of HF transformers, `model.encode`, one clip of 10 s at a time. The tuned loop: the
same in a process started with `worker_environment`, three variables that anybody could set. Ours: `codec.encode` on a
batch of the same clips, in such a process. All run in processes of their own, one thread each, in turn; the figures are
medians of audio-seconds per core-second (`time.process_time`, after one clip to warm up). The models have the real
architectures and random weights, with codebooks drawn from what is left of the encoder's own outputs by those before,
so that every code is used and near ties occur as they do in practice. Clips are synthesised, or cut from the recordings
below FOLDER. EnCodec is also timed in bf16 where the processor has it, beside ours in fp32; what that does to decoded
audio needs real weights: `solfa encode --try-precision bf16`. Of Oobleck, which has no codes, the largest difference
between latents is printed, in units of their standard deviation.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import soundfile
import soxr
from ratios import Ratio, add_option, write_ratios

from solfa.codecs.cpu.convolution import has_fast_bf16
from solfa.environment import worker_environment
from solfa.environment.bf16 import probe_bf16

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
    "mimi": {"num_quantizers": 8},
    "dac_44khz": {"sampling_rate": 44100, "downsampling_ratios": [2, 4, 8, 8]},
    "oobleck": {"sampling_rate": 44100},
}
SLOW = ("dac_44khz", "oobleck")
GOALS = {"encodec_32khz": None, "encodec_24khz": 2.0, "mimi": 2.0, "dac_44khz": 2.5, "oobleck": 2.0}
"""How many times as fast as either loop."""
BF16_GOAL = 1.6
ROLES = ("loop", "tuned", "ours", "bf16")


def synthesise(seed: int, sample_rate: int, seconds: float = SECONDS) -> np.ndarray:
    """Plucked chords over noise bursts, ten seconds or less: tones, decays, attacks and near silence."""
    rng = np.random.default_rng(seed)
    time_axis = np.arange(round(seconds * sample_rate)) / sample_rate
    audio = 1e-3 * rng.standard_normal(len(time_axis))
    for start in np.cumsum(rng.uniform(0.1, 0.5, 40)):
        first = int(np.searchsorted(time_axis, start, side="right"))  # what comes before it is silent
        after, sounding = time_axis[first:] - start, audio[first:]
        for pitch in 110 * 2 ** (rng.integers(0, 36, 3) / 12):
            for harmonic in range(1, 7):
                tone = np.sin(2 * np.pi * pitch * harmonic * after) * np.exp(-after * (2 + harmonic))
                sounding += rng.uniform(0.1, 0.4) / harmonic * tone
        burst = rng.standard_normal(len(audio))[first:]
        sounding += np.exp(-40 * after) * burst * rng.uniform(0, 0.3)
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

    torch.manual_seed(0)
    with torch.inference_mode():
        batch = torch.from_numpy(np.stack(audio))[:, None]
        family = next(family for name, family in BUILDERS.items() if codec.startswith(name))
        family(CONFIGS[codec], batch).save_pretrained(folder)
        processor = _processor(codec)
        if processor is not None:
            processor.save_pretrained(folder)


def _processor(codec: str) -> Any:
    from transformers import DacFeatureExtractor, EncodecFeatureExtractor

    if codec == "oobleck":
        return None
    rate = CONFIGS[codec].get("sampling_rate", 24000)
    return (
        DacFeatureExtractor(sampling_rate=rate) if codec[:3] == "dac" else EncodecFeatureExtractor(sampling_rate=rate)
    )


def _encodec(config: dict[str, Any], batch: Any) -> Any:
    import torch
    from transformers import EncodecConfig, EncodecModel

    model = EncodecModel(EncodecConfig(**config)).eval()
    residual = torch.cat([model.encoder(clip[None]) for clip in batch]).mT.flatten(0, 1)
    for layer in model.quantizer.layers:
        chosen = torch.randperm(len(residual))[: len(layer.codebook.embed)]
        layer.codebook.embed[: len(chosen)] = residual[chosen]
        residual = residual - layer.codebook.decode(layer.codebook.encode(residual))
    return model


def _mimi(config: dict[str, Any], batch: Any) -> Any:
    import torch
    from transformers import MimiConfig, MimiModel

    model = MimiModel(MimiConfig(**config)).eval()
    latents = torch.cat([model.encoder(clip[None]).latents for clip in batch])
    for name in ("semantic", "acoustic"):
        quantizer = getattr(model.quantizer, f"{name}_residual_vector_quantizer")
        residual = quantizer.input_proj(latents).mT.flatten(0, 1)
        for layer in quantizer.layers:
            chosen = torch.randperm(len(residual))[: len(layer.codebook.embed_sum)]
            layer.codebook.cluster_usage.fill_(1.0)
            layer.codebook.embed_sum[: len(chosen)] = residual[chosen]
            residual = residual - layer.codebook.decode(layer.codebook.encode(residual))
    return model


def _dac(config: dict[str, Any], batch: Any) -> Any:
    import torch
    from transformers import DacConfig, DacModel

    model = DacModel(DacConfig(**config)).eval()
    residual = torch.cat([model.encoder(clip[None]) for clip in batch])
    for quantizer in model.quantizer.quantizers:
        latents = quantizer.in_proj(residual).mT.flatten(0, 1)
        chosen = torch.randperm(len(latents))[: len(quantizer.codebook.weight)]
        quantizer.codebook.weight[: len(chosen)] = latents[chosen]
        residual = residual - quantizer(residual)[0]
    return model


def _oobleck(config: dict[str, Any], batch: Any) -> Any:
    from diffusers import AutoencoderOobleck

    return AutoencoderOobleck(**config).eval()


BUILDERS: dict[str, Callable[[dict[str, Any], Any], Any]] = {
    "encodec": _encodec,
    "mimi": _mimi,
    "dac": _dac,
    "oobleck": _oobleck,
}


def loop_of_a_user(codec: str, folder: Path, paths: list[Path]) -> tuple[float, np.ndarray]:
    import torch
    from diffusers import AutoencoderOobleck
    from transformers import AutoFeatureExtractor, AutoModel

    torch.set_num_threads(1)
    is_latent = codec == "oobleck"
    model = (AutoencoderOobleck if is_latent else AutoModel).from_pretrained(folder).eval()
    processor = None if is_latent else AutoFeatureExtractor.from_pretrained(folder)

    @torch.no_grad()
    def encode(path: Path) -> np.ndarray:
        audio, rate = soundfile.read(path, dtype="float32")
        if is_latent:
            stereo = torch.from_numpy(audio).expand(1, 2, -1)
            padded = torch.nn.functional.pad(stereo, (0, -len(audio) % model.hop_length))
            return model.encode(padded).latent_dist.mean[0].numpy()
        inputs = processor(raw_audio=audio, sampling_rate=rate, return_tensors="pt")
        if codec.startswith("dac"):
            return model.encode(inputs["input_values"]).audio_codes[0].numpy()
        codes = model.encode(inputs["input_values"], inputs["padding_mask"]).audio_codes
        return codes[0, 0].numpy() if codec.startswith("encodec") else codes[0].numpy()

    encode(paths[0])
    start = time.process_time()
    codes = [encode(path) for path in paths]
    return time.process_time() - start, np.stack(codes)


def ours(precision: Literal["fp32", "bf16"], folder: Path, paths: list[Path]) -> tuple[float, np.ndarray]:
    import torch

    import solfa

    torch.set_num_threads(1)
    loaded = solfa.load_codec(str(folder), precision=precision)

    def encode(paths: list[Path]) -> np.ndarray:
        audio = torch.from_numpy(np.stack([soundfile.read(path, dtype="float32")[0] for path in paths]))
        return loaded.encode(audio[:, None].expand(-1, loaded.num_channels, -1)).array.mT.numpy()

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


def difference(codec: str, theirs: np.ndarray, ours: np.ndarray) -> str:
    if codec == "oobleck":
        return f"latents differ by {np.abs(theirs - ours).max() / theirs.std():.1e}"
    return f"{int((theirs != ours).sum())} of {theirs.size} codes differ, {len(np.unique(theirs))} used"


def compare(codec: str, repeats: int, num_clips: int, seconds: float, recordings: Path | None) -> list[Ratio]:
    rate = CONFIGS[codec].get("sampling_rate", 24000)

    def clip(seed: int) -> np.ndarray:
        if recordings is None:
            return synthesise(seed, rate, seconds)
        return cut(recordings, seed, rate)[: round(seconds * rate)]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(codec, folder, [clip(1000 + seed) for seed in range(2 if codec in SLOW else 6)])
        for seed in range(num_clips):
            soundfile.write(folder / f"{seed:03d}.wav", clip(seed), rate, subtype="FLOAT")
        has_bf16 = codec.startswith("encodec") and has_fast_bf16() and probe_bf16()
        speeds: dict[str, list[float]] = {role: [] for role in ROLES if has_bf16 or role != "bf16"}
        arrays = {}
        for _ in range(repeats):
            for role, values in speeds.items():
                spent, arrays[role] = measure(role, codec, folder)
                values.append(num_clips * seconds / spent)
    loop, tuned, own, *halved = (statistics.median(values) for values in speeds.values())
    print(
        f"{codec:<16}{loop:>8.2f}{tuned:>8.2f}{own:>8.2f}{own / loop:>10.2f}{own / tuned:>10.2f}   "
        f"{difference(codec, arrays['loop'], arrays['ours'])}",
        flush=True,
    )
    name = f"encoding, {codec}"
    ratios = [
        Ratio(name, "the loop", own / loop, GOALS[codec]),
        Ratio(name, "the loop, tuned", own / tuned, GOALS[codec]),
    ]
    for speed in halved:
        changed = difference(codec, arrays["ours"], arrays["bf16"])
        print(f"{'  in bf16':<32}{speed:>8.2f}, {speed / own:.2f} times fp32   {changed}", flush=True)
        ratios.append(Ratio(f"{name}, bf16", "fp32", speed / own, BF16_GOAL))
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codec", choices=[*CONFIGS, "all"], default="all")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clips", type=int, default=16, help="in one batch of ours; DAC and Oobleck take an eighth")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the length of a clip, at most 10")
    parser.add_argument("--audio", type=Path, help="a folder of recordings to cut the clips from")
    add_option(parser)
    parser.add_argument("--role", choices=ROLES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role is None:
        print(f"{'codec':<16}{'loop':>8}{'tuned':>8}{'ours':>8}{'of loop':>10}{'of tuned':>10}")
        ratios: list[Ratio] = []
        for codec in CONFIGS if options.codec == "all" else [options.codec]:
            num_clips = max(1, options.clips // 8) if codec in SLOW else options.clips
            ratios += compare(codec, options.repeats, num_clips, options.seconds, options.audio)
        write_ratios(options.ratios, ratios)
        return
    paths = sorted(options.folder.glob("*.wav"))
    if options.role in ("ours", "bf16"):
        seconds, codes = ours("fp32" if options.role == "ours" else "bf16", options.folder, paths)
    else:
        seconds, codes = loop_of_a_user(options.codec, options.folder, paths)
    np.save(options.folder / f"{options.role}.npy", codes)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
