"""How long a training step of SaShiMi takes: as a recurrence in C, and as a convolution with either of two kernels.

    python benchmarks/sashimi_training_step.py [--layers 8] [--dim 64] [--samples 8192] [--clips 1] [--rounds 3]
                                               [--without-naive] [--bf16]

A step is forward, cross-entropy of 8-bit classes and backward, in float32 with one thread, on the same weights and the
same batch. The sides take turns in one process, after a step of each that is not counted; the clock is CPU time, and
the figures are medians. The sides differ in the state-space layers alone:

    one exponential per power   a convolution by FFT; its kernel as the definition says it, S exponentials for each mode
                                of each channel: what one writes first, and public S4D code without its extensions
    factorised                  the same convolution; its kernel is one matrix product: where there is no C compiler
    recurrence in C             neither kernel nor convolution

The network of sashimi_heads.py is `--dim 32 --layers 2 --samples 4096 --clips 2`. With --bf16, autocast chooses the
precision of the linear layers, as `precision=bf16-mixed` does.
"""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
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


def convolved(**others: Callable[..., Tensor]) -> ExitStack:
    """Convolve in PyTorch, with another function in the place of each that is named."""
    stack = ExitStack()
    stack.enter_context(patch.object(s4d, "recurrence_for", lambda inputs: None))
    for name, function in others.items():
        stack.enter_context(patch.object(s4d, name, function))
    return stack


NAIVE, FACTORISED, RECURRENCE = "one exponential per power", "factorised", "recurrence in C"
SIDES: dict[str, Callable[[], ExitStack]] = {
    NAIVE: lambda: convolved(kernel_of=naive_kernel),
    FACTORISED: convolved,
    RECURRENCE: ExitStack,
}


def measure_step(model: Sashimi, classes: Tensor, bf16: bool) -> Measured:
    model.zero_grad()
    start = time.process_time()
    with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
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
    config = SashimiConfig(num_classes=NUM_CLASSES, n_layers=options.layers, dim=options.dim)
    model = Sashimi(config, NUM_CLASSES)
    classes = torch.randint(0, NUM_CLASSES, (options.clips, options.samples))
    measured: dict[str, list[Measured]] = {s: [] for s in SIDES if s != NAIVE or not options.without_naive}
    for _ in range(options.rounds + 1):
        for side, taken in measured.items():
            with SIDES[side]():
                taken.append(measure_step(model, classes, options.bf16))
    return {side: taken[1:] for side, taken in measured.items()}


def show(options: argparse.Namespace, measured: dict[str, list[Measured]]) -> list[Ratio]:
    medians = {side: [median(column) for column in zip(*taken, strict=True)] for side, taken in measured.items()}
    steps = {side: forward + backward for side, (forward, backward, _, _) in medians.items()}
    slowest = next(iter(steps.values()))
    print(f"{options.layers} layers, {options.clips} clip(s) of {options.samples} samples, one thread, CPU time,")
    print(f"{options.rounds} rounds; {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}\n")
    print("| way | forward s | backward s | step s | times as fast | loss | gradient |\n|---|---|---|---|---|---|---|")
    for side, (forward, backward, loss, gradient) in medians.items():
        times = f"{forward:.3f} | {backward:.3f} | {steps[side]:.3f} | {slowest / steps[side]:.2f}"
        print(f"| {side} | {times} | {loss:.6f} | {gradient:.6f} |")
    losses = [median[2] for median in medians.values()]
    print(f"\nThe losses differ by {max(losses) - min(losses):.1e}.")
    against = {NAIVE: "the naive kernel", FACTORISED: "the factorised kernel"}
    return [
        Ratio("SaShiMi, a training step", name, steps[side] / steps[RECURRENCE])
        for side, name in against.items()
        if side in steps
    ]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--clips", type=int, default=1)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-naive", action="store_true", help="which takes twenty times as long")
    parser.add_argument("--bf16", action="store_true")
    add_option(parser)
    options = parser.parse_args(arguments)
    write_ratios(options.ratios, show(options, run(options)))


if __name__ == "__main__":
    main(sys.argv[1:])
