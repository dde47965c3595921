"""How long a training step of a diffusion transformer takes, and how much memory: Solfa, diffusers, stable-audio-tools.

    python benchmarks/flow_step.py [--clips 4] [--frames 128] [--dim 256] [--layers 6] [--rounds 3] [--steps 4]

The network is that of Stable Audio Open, which all three have, on the same random latents of 64 channels, in float32
with one thread: the two numbers of seconds as conditions, the objective v, mean squared error, backward, fused AdamW.
"solfa" is the solver itself in its training loop: it reads its batches from a dataset on disk, draws noise and times
per clip, clips gradients, keeps means of its metrics. "diffusers" is the plain loop around `StableAudioDiTModel`, and
"tools" the same around `DiffusionTransformer` of stable-audio-tools (which pip puts into a folder of its own),
both on latents that are in memory. The sides run in turn, each time in a process of its own; CPU time of an epoch of
`steps` updates after one that is not counted; medians of the rounds.

    python benchmarks/flow_step.py --disk [--clips 2] [--frames 64]

trains with the solver on latents from disk, and once more with every batch encoded in the loop from audio of the same
length: with Stable Audio's Oobleck (random weights), and with the built-in codec.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import solfa
from solfa.codecs import Codec, Encoded
from solfa.config import parse_config
from solfa.environment import worker_environment
from solfa.solvers import Experiment, FlowSolver
from solfa.store import ArraySpec, DatasetInfo, Outcome, PlannedClip, append_arrays

TOOLS = "stable-audio-tools==0.0.19"
COND, HEAD, STORED_CLIPS = 64, 64, 32
OOBLECK = ArraySpec(
    kind="latents", width=64, sample_rate=44_100, num_channels=2, hop_length=2048, dtype="float16"
)  # fmt: skip

Epoch = Callable[[], None]
"""An epoch of updates."""


def stored_latents(root: Path, spec: ArraySpec, num_frames: int) -> Path:
    """Write a dataset of random latents, each clip twice as long as a row in training."""
    rng = np.random.default_rng(0)
    outcomes = [
        Outcome(
            PlannedClip(id=name, key=name, uri=f"{name}.flac"),
            rng.standard_normal((2 * num_frames, spec.width)).astype(np.float16),
            num_samples=2 * num_frames * spec.hop_length,
        )
        for name in (f"{index:03d}" for index in range(STORED_CLIPS))
    ]
    append_arrays(root, DatasetInfo.of("benchmark", spec, {}), outcomes, {})
    return root


def solver_on(data: Path, spec: ArraySpec, options: argparse.Namespace, folder: Path) -> FlowSolver:
    """Build the solver that `solver=flow/base` with the network of Stable Audio Open, in this size, would run."""
    values = {
        "solver": "flow",
        "device": "cpu",
        "num_threads": 1,
        "dset": {"train": str(data), "hold_out": {"clips": options.clips}},
        "dataset": {
            "segment_seconds": options.frames * spec.hop_length / spec.sample_rate,
            "batch_size": options.clips,
            "num_workers": 0,
        },
        "model": {
            "kind": "stable_audio_open",
            "objective": "v",
            "dim": options.dim,
            "num_layers": options.layers,
            "num_heads": options.dim // HEAD,
            "num_kv_heads": 1,
            "cond_dim": COND,
            "max_seconds": 512,
        },
        "optim": {"epochs": 2, "updates_per_epoch": options.steps, "optimizer": {"kind": "adamw", "lr": 1e-4}},
        "evaluate": {"every": None},
        "generate": {"every": None},
        "logging": {"tensorboard": False},
    }
    return FlowSolver(parse_config(FlowSolver.Config, values, "flow"), Experiment(folder, "benchmark"))


def epoch_of(solver: FlowSolver) -> Epoch:
    """Return what runs the updates of an epoch, once more each time."""

    def train() -> None:
        solver.num_updates = 0
        solver.run_stage("train")

    return train


def solfa_side(options: argparse.Namespace) -> tuple[torch.nn.Module, Epoch]:
    solver = solver_on(options.data, OOBLECK, options, options.data.parent / f"xp-{os.getpid()}")
    return solver.network, epoch_of(solver)


def diffusers_side(options: argparse.Namespace) -> tuple[torch.nn.Module, Epoch]:
    from diffusers import StableAudioDiTModel
    from diffusers.models.embeddings import get_1d_rotary_pos_embed

    network: Any = StableAudioDiTModel(
        in_channels=OOBLECK.width, out_channels=OOBLECK.width, num_layers=options.layers, attention_head_dim=HEAD,
        num_attention_heads=options.dim // HEAD, num_key_value_attention_heads=1, cross_attention_dim=COND,
        cross_attention_input_dim=COND, global_states_input_dim=2 * COND,
    )  # fmt: skip
    rotary = get_1d_rotary_pos_embed(HEAD // 2, options.frames + 1, use_real=True, repeat_interleave_real=False)

    def predict(points: torch.Tensor, times: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = network(points, times, numbers, numbers.flatten(1)[:, None], rotary, return_dict=False)[0]
        return found

    return plain_loop(network, predict, options)


def tools_side(options: argparse.Namespace) -> tuple[torch.nn.Module, Epoch]:
    from stable_audio_tools.models.dit import DiffusionTransformer  # type: ignore[import-not-found]

    network: Any = DiffusionTransformer(
        io_channels=OOBLECK.width, embed_dim=options.dim, cond_token_dim=COND, project_cond_tokens=False,
        global_cond_dim=2 * COND, depth=options.layers, num_heads=options.dim // HEAD,
    )  # fmt: skip

    def predict(points: torch.Tensor, times: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = network(points, times, cross_attn_cond=numbers, global_embed=numbers.flatten(1))
        return found

    return plain_loop(network, predict, options)


def plain_loop(
    network: torch.nn.Module, predict: Callable[..., torch.Tensor], options: argparse.Namespace
) -> tuple[torch.nn.Module, Epoch]:
    """Train as one writes it: the latents in memory, one call of randn, diffusers' embedding of seconds."""
    from diffusers import StableAudioProjectionModel

    numbers: Any = StableAudioProjectionModel(COND, COND, 0, 512)
    both = torch.nn.ModuleDict({"network": network, "numbers": numbers})
    optimizer = torch.optim.AdamW(both.parameters(), lr=1e-4, fused=True)
    clips = torch.stack(
        [torch.from_numpy(clip.array.astype(np.float32)).T for clip in solfa.open_dataset(options.data)]
    )

    def update() -> None:
        latents = clips[torch.randint(len(clips), (options.clips,)), :, : options.frames]
        told = numbers(start_seconds=torch.zeros(options.clips), end_seconds=torch.full((options.clips,), 12.0))
        seconds = torch.cat([told.seconds_start_hidden_states, told.seconds_end_hidden_states], dim=1)
        noise, times = torch.randn_like(latents), torch.rand(options.clips)
        a, b = (times * math.pi / 2).cos()[:, None, None], (times * math.pi / 2).sin()[:, None, None]
        predicted = predict(latents * a + noise * b, times, seconds)
        torch.nn.functional.mse_loss(predicted, noise * a - latents * b).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def epoch() -> None:
        for _ in range(options.steps):
            update()

    return both, epoch


SIDES = {"solfa": solfa_side, "diffusers": diffusers_side, "tools": tools_side}


def seconds_per_step(epoch: Epoch, steps: int) -> float:
    """CPU seconds of a step, over a whole epoch."""
    begin = time.process_time()
    epoch()
    return (time.process_time() - begin) / steps


def measure(options: argparse.Namespace) -> None:
    """Run in a process of its own; print the seconds of a step in the second epoch, and the peak of memory."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, epoch = SIDES[options.side](options)
    epoch()
    seconds = seconds_per_step(epoch, options.steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = sum(parameter.numel() for parameter in model.parameters())
    print(json.dumps({"seconds": seconds, "peak_mb": peak, "parameters": size}))


def start(side: str, options: argparse.Namespace, data: Path, packages: Path) -> dict[str, Any]:
    sizes = [f"--{name}={getattr(options, name)}" for name in ("clips", "frames", "dim", "layers", "steps")]
    path = os.pathsep.join([*([str(packages)] if side == "tools" else []), os.environ.get("PYTHONPATH", "")])
    environment = {**worker_environment(os.environ), "PYTHONPATH": path}
    command = [sys.executable, __file__, "--side", side, "--data", str(data), *sizes]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"{side} failed:\n{result.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def compare_sides(options: argparse.Namespace, folder: Path) -> None:
    """Run the sides in turn, and print the medians."""
    data, packages = stored_latents(folder / "latents.solfa", OOBLECK, options.frames), folder / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), TOOLS]
    subprocess.run(install, check=True)
    runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(options.rounds):
        for side, found in runs.items():
            found.append(start(side, options, data, packages))
    for side, found in runs.items():
        seconds = [run["seconds"] for run in found]
        print(
            f"{side:10} {found[0]['parameters']:,} parameters  {median(seconds):.3f} core-seconds a step "
            f"({min(seconds):.3f} to {max(seconds):.3f})  peak {median(run['peak_mb'] for run in found):.0f} MB"
        )


class RandomOobleck:
    """Stable Audio's autoencoder, as large as it is, with random weights: it takes as long as the real one."""

    def __init__(self) -> None:
        from diffusers import AutoencoderOobleck

        self._network: Any = AutoencoderOobleck().eval()

    def encode(self, audio: torch.Tensor) -> Encoded:
        latents: torch.Tensor = self._network.encode(audio).latent_dist.mode()
        return Encoded(latents.transpose(1, 2), audio.shape[-1])


def encode_in_loop(solver: FlowSolver, codec: Codec | RandomOobleck, spec: ArraySpec) -> None:
    """Make the solver encode audio as long as its rows before every step, and train on that."""
    step = solver.run_step

    def encode_first(idx: int, batch: Any, metrics: Any) -> Any:
        num_clips, num_frames = batch.arrays.shape[:2]
        audio = 0.1 * torch.randn(num_clips, spec.num_channels, num_frames * spec.hop_length)
        with torch.no_grad():
            latents = codec.encode(audio).array
        return step(idx, replace(batch, arrays=latents.float()), metrics)

    solver.run_step = encode_first  # type: ignore[method-assign]


def from_disk(options: argparse.Namespace, folder: Path) -> None:
    """Compare steps on stored latents with steps that encode their audio first, in turn."""
    torch.set_num_threads(1)
    own = solfa.load_codec("solfa_24khz:latents=true")
    small = ArraySpec(
        kind="latents", width=own.latent_channels or 0, sample_rate=own.sample_rate, num_channels=own.num_channels,
        hop_length=own.hop_length, dtype="float16",
    )  # fmt: skip
    codecs: list[tuple[str, Codec | RandomOobleck, ArraySpec]] = [
        ("Stable Audio's Oobleck", RandomOobleck(), OOBLECK),
        ("solfa_24khz:latents=true", own, small),
    ]
    for name, codec, spec in codecs:
        data = stored_latents(folder / f"{spec.width}.solfa", spec, options.frames)
        stored = solver_on(data, spec, options, folder / f"{spec.width}-stored")
        encoding = solver_on(data, spec, options, folder / f"{spec.width}-encoding")
        encode_in_loop(encoding, codec, spec)
        epochs = {"from disk": epoch_of(stored), "encoded in the loop": epoch_of(encoding)}
        found: dict[str, list[float]] = {where: [] for where in epochs}
        epochs["from disk"]()
        for _ in range(options.rounds):
            for where, epoch in epochs.items():
                found[where].append(seconds_per_step(epoch, options.steps))
        seconds = options.frames * spec.hop_length / spec.sample_rate
        print(f"{name}, {options.clips} clips of {seconds:.1f} s:")
        for where, taken in found.items():
            print(
                f"  {where:20} {median(taken):.3f} core-seconds a step, {1 / median(taken):.2f} steps per core-second"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("clips", 4), ("frames", 128), ("dim", 256), ("layers", 6), ("rounds", 3), ("steps", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--disk", action="store_true")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        measure(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        (from_disk if options.disk else compare_sides)(options, Path(folder))


if __name__ == "__main__":
    main()
