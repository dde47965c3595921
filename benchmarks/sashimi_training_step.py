"""How long a training step of SaShiMi takes, beside the same network with a kernel of one exponential for each power.

    python benchmarks/sashimi_training_step.py [--layers 8] [--samples 8192] [--clips 1] [--rounds 3]

A step is forward, cross-entropy of 8-bit classes and backward, in float32 with one thread, on the same weights and the
same batch. The sides take turns in one process, after a step of each that is not counted; the clock is CPU time, and
the figures are medians. The other side differs in one function: the kernel as the definition says it, S exponentials
for each mode of each channel, which is what one writes first and what public S4D code does without its extensions.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from statistics import median
from typing import NamedTuple
from unittest.mock import patch

import torch
import torch.nn.functional as F
from ratios import Ratio, add_option, write_ratios
from torch import Tensor

from solfa.models import Sashimi, SashimiConfig, previous_classes
from solfa.nn import s4d
from solfa.ops.ssm import Powers, System

NUM_CLASSES = 256


class Measured(NamedTuple):
    """One step: CPU seconds of both passes, the loss, and the length of the whole gradient."""

    forward: float
    backward: float
    loss: float
    gradient: float


def naive_kernel(system: System, powers: Powers, num_steps: int) -> Tensor:
    steps = torch.arange(num_steps)
    vandermonde = torch.exp(system.log_decay[..., None] * steps)
    return 2 * torch.einsum("dq,dqs->ds", system.readout * system.gain, vandermonde).real


SIDES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "one exponential per power": lambda: patch.object(s4d, "kernel_of", naive_kernel),
    "factorised": nullcontext,
}


def measure_step(model: Sashimi, classes: Tensor) -> Measured:
    model.zero_grad()
    start = time.process_time()
    outputs = model(previous_classes(classes, model.start(len(classes))))
    loss = F.cross_entropy(outputs.flatten(0, 1), classes.flatten())
    middle = time.process_time()
    torch.autograd.backward(loss)
    end = time.process_time()
    gradients = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
    return Measured(middle - start, end - middle, float(loss.detach()), float(torch.stack(gradients).norm()))


def run(options: argparse.Namespace) -> dict[str, list[Measured]]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Sashimi(SashimiConfig(num_classes=NUM_CLASSES, n_layers=options.layers), NUM_CLASSES)
    classes = torch.randint(0, NUM_CLASSES, (options.clips, options.samples))
    measured: dict[str, list[Measured]] = {side: [] for side in SIDES}
    for _ in range(options.rounds + 1):
        for side, kernel in SIDES.items():
            with kernel():
                measured[side].append(measure_step(model, classes))
    return {side: taken[1:] for side, taken in measured.items()}


def show(options: argparse.Namespace, measured: dict[str, list[Measured]]) -> list[Ratio]:
    naive, ours = ([median(column) for column in zip(*taken, strict=True)] for taken in measured.values())
    print(f"{options.layers} layers, {options.clips} clip(s) of {options.samples} samples, one thread, CPU time,")
    print(f"{options.rounds} rounds; {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}\n")
    print(
        "| kernel | forward s | backward s | step s | times as fast | loss | gradient |\n|---|---|---|---|---|---|---|"
    )
    for side, (forward, backward, loss, gradient) in zip(measured, (naive, ours), strict=True):
        step = forward + backward
        ratio = (naive[0] + naive[1]) / step
        print(f"| {side} | {forward:.2f} | {backward:.2f} | {step:.2f} | {ratio:.1f}x | {loss:.6f} | {gradient:.6f} |")
    print(f"\nThe losses differ by {abs(naive[2] - ours[2]):.1e}.")
    return [Ratio("SaShiMi, a training step", "the naive kernel", (naive[0] + naive[1]) / (ours[0] + ours[1]))]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--clips", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    add_option(parser)
    options = parser.parse_args(arguments)
    write_ratios(options.ratios, show(options, run(options)))


if __name__ == "__main__":
    main(sys.argv[1:])
