"""Does `compile=true` pay? A training step of SaShiMi and of a small language model, with torch.compile and without.

    python benchmarks/compiled_step.py [--model sashimi] [--layers 2] [--samples 8192] [--frames 250] [--rounds 7]

A step is forward, loss and backward in float32 with one thread; both sides have the same weights and the same batch,
and take turns in one process. The clock is CPU time, the figures are medians. Compiling is the first step of the
compiled side; its C++ compiler runs in children of this process, so that time is by the wall clock.
"""

import argparse
import copy
import sys
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.nn.functional as F
from lm_training_step import CODEBOOK_SIZE, CODEBOOKS, make_batch
from torch import Tensor, nn

from solfa.models import CodecLM, CodecLMConfig, Conditions, Sashimi, SashimiConfig, cross_entropy, previous_classes

NUM_CLASSES = 256
Loss = Callable[[nn.Module], Tensor]


def sashimi(options: argparse.Namespace) -> tuple[nn.Module, Loss]:
    model = Sashimi(SashimiConfig(num_classes=NUM_CLASSES, n_layers=options.layers), NUM_CLASSES)
    classes = torch.randint(0, NUM_CLASSES, (1, options.samples))
    read = previous_classes(classes, model.start(1))
    return model, lambda model: F.cross_entropy(model(read).flatten(0, 1), classes.flatten())


def language_model(options: argparse.Namespace) -> tuple[nn.Module, Loss]:
    config = CodecLMConfig(
        num_codebooks=CODEBOOKS,
        codebook_size=CODEBOOK_SIZE,
        dim=256,
        num_layers=options.layers,
        num_heads=4,
        ffn_dim=1024,
        cross_attention=False,
    )
    laid, _ = make_batch(1, options.frames)

    def loss(model: nn.Module) -> Tensor:
        nats = cross_entropy(model(laid.inputs, Conditions()), laid.targets, laid.mask)
        return (nats / laid.mask.sum((0, 2))).mean()

    return CodecLM(config).train(), loss


MODELS = {"sashimi": sashimi, "lm": language_model}


def step(model: nn.Module, loss: Loss) -> tuple[float, float]:
    model.zero_grad()
    start = time.process_time()
    nats = loss(model)
    torch.autograd.backward(nats)
    return time.process_time() - start, float(nats.detach())


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=list(MODELS), default="sashimi")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--frames", type=int, default=250)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    eager, loss = MODELS[options.model](options)
    compiled = copy.deepcopy(eager)
    compiled.compile()  # type: ignore[no-untyped-call]
    start = time.monotonic()
    step(compiled, loss)
    seconds = time.monotonic() - start
    sides = {"eager": eager, "compiled": compiled}
    for model in sides.values():
        step(model, loss)
    taken: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side, model in sides.items():
            taken[side].append(step(model, loss))
    print(f"{options.model}, {options.layers} layers, one thread, CPU time, {options.rounds} rounds; ", end="")
    print(f"{torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}; compiled in {seconds:.0f} s\n")
    print("| side | step s | times as fast | loss |\n|---|---|---|---|")
    medians = {side: [median(column) for column in zip(*steps, strict=True)] for side, steps in taken.items()}
    for side, (cpu, nats) in medians.items():
        print(f"| {side} | {cpu:.3f} | {medians['eager'][0] / cpu:.2f} | {nats:.6f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
