"""How long a training step of a decoder of MusicGen-small's size takes, beside transformers' own module.

    python benchmarks/lm_training_step.py [--threads 1] [--clips 1] [--frames 250] [--rounds 3] [--steps 2] [--layers N]
                                          [--bf16]

A step is forward, cross-entropy of the delayed codes, backward and fused AdamW, in float32 (or in bfloat16 as autocast
chooses) with a text of eight tokens, on the same batch. The sides run in processes of their own (two such models with
their optimisers need 14 GB), in turn, started with the same environment; medians of the steps after the first. With one
thread the clock is CPU time. The loader's share is that of `make_loader` without workers over a dataset of random
codes, i.e. with nothing hidden.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from ratios import Ratio, add_option, write_ratios

from solfa.data import Crop, Loader, make_loader
from solfa.environment import worker_environment
from solfa.models import CodecLM, CodecLMConfig, Conditions, InputsAndTargets, cross_entropy, inputs_and_targets
from solfa.ops import Delay
from solfa.store import ArraySpec, DatasetInfo, Outcome, PlannedClip, append_arrays, open_dataset

CODEBOOKS, CODEBOOK_SIZE, DIM, HEADS, FFN_DIM, TEXT_TOKENS = 4, 2048, 1024, 16, 4096, 8
SPEC = ArraySpec(
    kind="codes",
    width=CODEBOOKS,
    codebook_size=CODEBOOK_SIZE,
    sample_rate=32_000,
    num_channels=1,
    hop_length=640,
    dtype="uint16",
)
IGNORED = -100

Loss = Callable[[], torch.Tensor]


def make_batch(num_clips: int, num_frames: int) -> tuple[InputsAndTargets, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, CODEBOOK_SIZE, (num_clips, CODEBOOKS, num_frames), generator=generator)
    mask = torch.ones(num_clips, num_frames, dtype=torch.bool)
    layout = Delay().layout(CODEBOOKS, num_frames)
    text = torch.randn(num_clips, TEXT_TOKENS, DIM, generator=generator)
    return inputs_and_targets(codes, mask, layout, CODEBOOK_SIZE), text


def ours(options: argparse.Namespace) -> tuple[torch.nn.Module, Loss]:
    config = CodecLMConfig(
        num_codebooks=CODEBOOKS,
        codebook_size=CODEBOOK_SIZE,
        dim=DIM,
        num_layers=options.layers,
        num_heads=HEADS,
        ffn_dim=FFN_DIM,
        cross_attention=True,
    )
    model = CodecLM(config).train()
    laid, text = make_batch(options.clips, options.frames)

    def loss() -> torch.Tensor:
        nats = cross_entropy(model(laid.inputs, Conditions(cross=text)), laid.targets, laid.mask)
        return (nats / laid.mask.sum((0, 2))).mean()

    return model, loss


def theirs(options: argparse.Namespace) -> tuple[torch.nn.Module, Loss]:
    from transformers import MusicgenForCausalLM
    from transformers.models.musicgen.configuration_musicgen import MusicgenDecoderConfig

    config = MusicgenDecoderConfig(
        num_hidden_layers=options.layers, hidden_size=DIM, num_attention_heads=HEADS, ffn_dim=FFN_DIM, dropout=0.0
    )
    model = MusicgenForCausalLM(config).train()
    laid, text = make_batch(options.clips, options.frames)
    labels = laid.targets.masked_fill(~laid.mask, IGNORED).transpose(1, 2).contiguous()

    def loss() -> torch.Tensor:
        result: Any = model(
            input_ids=laid.inputs.flatten(0, 1), encoder_hidden_states=text, labels=labels, use_cache=False
        )
        found: torch.Tensor = result.loss
        return found

    return model, loss


def measure_steps(options: argparse.Namespace) -> None:
    """Run in a process of its own; print the seconds of each step but the first, and the first loss."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model, loss_of = {"ours": ours, "theirs": theirs}[options.side](options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    seconds, losses = [], []
    for _ in range(options.steps + 1):
        start = clock()
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(clock() - start)
        losses.append(float(loss.detach()))
    print(json.dumps({"seconds": seconds[1:], "loss": losses[0]}))


def start_side(side: str, arguments: list[str]) -> dict[str, Any]:
    command = [sys.executable, __file__, *arguments, "--side", side]
    environment = worker_environment(os.environ)
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    measured: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return measured


def random_clips(num_clips: int, num_frames: int) -> list[Outcome]:
    rng = np.random.default_rng(0)
    names = [f"{index:06d}" for index in range(num_clips)]
    return [
        Outcome(
            PlannedClip(id=name, key=name, uri=f"{name}.flac", caption="a melody"),
            rng.integers(0, CODEBOOK_SIZE, (num_frames, CODEBOOKS), np.uint16),
            num_samples=num_frames * SPEC.hop_length,
        )
        for name in names
    ]


def seconds_per_batch(loader: Loader) -> float:
    """CPU seconds of one batch, read in this process."""
    taken = []
    start = time.process_time()
    for _ in loader:
        taken.append(time.process_time() - start)
        start = time.process_time()
    return median(taken)


def measure_loader(options: argparse.Namespace) -> float:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "clips.solfa"
        append_arrays(root, DatasetInfo.of("benchmark", SPEC, {}), random_clips(2_000, 2 * options.frames), {})
        mode = Crop(num_frames=options.frames, batch_size=options.clips)
        return seconds_per_batch(make_loader(open_dataset(root), mode))


def run(options: argparse.Namespace, arguments: list[str]) -> None:
    seconds: dict[str, list[float]] = {"theirs": [], "ours": []}
    losses: dict[str, float] = {}
    for _ in range(options.rounds):
        for side, taken in seconds.items():
            measured = start_side(side, arguments)
            taken.extend(measured["seconds"])
            losses[side] = measured["loss"]
    ours_step, theirs_step = median(seconds["ours"]), median(seconds["theirs"])
    per_batch = measure_loader(options)
    clock = "CPU time" if options.threads == 1 else "wall time"
    print(f"{options.layers} layers, {options.clips} clip(s) of {options.frames} frames, {options.threads} thread(s),")
    print(
        f"{clock}, {options.rounds} rounds of {options.steps} steps; {torch.backends.cpu.get_cpu_capability()}, ",
        end="",
    )
    print(f"torch {torch.__version__}\n\n| | seconds per step | first loss | times transformers |\n|---|---|---|---|")
    print(f"| transformers MusicgenForCausalLM | {theirs_step:.2f} | {losses['theirs']:.3f} | 1.00x |")
    print(f"| Solfa CodecLM | {ours_step:.2f} | {losses['ours']:.3f} | {theirs_step / ours_step:.2f}x |")
    print(f"| the loader's part of Solfa's step | {per_batch:.5f} ({per_batch / ours_step:.3%}) | | |")
    name = "a training step in bfloat16" if options.bf16 else "a training step"
    write_ratios(options.ratios, [Ratio(name, "transformers", theirs_step / ours_step, 1.0)])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clips", type=int, default=1)
    parser.add_argument("--frames", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--bf16", action="store_true", help="Both sides with autocast.")
    add_option(parser)
    parser.add_argument("--side", choices=["ours", "theirs"], help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.side:
        measure_steps(options)
    else:
        run(options, arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
