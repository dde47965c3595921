"""How many samples a second SaShiMi generates: step by step in PyTorch, and by the fused kernel.

    python benchmarks/sashimi_generation.py [--layers 8] [--samples 2048] [--clips 1 16] [--rounds 5] [--compared 4096]

Both draw 8-bit classes from the same weights with the same random numbers and give the log-probability of each draw, in
float32 with one thread. The eager side discretises its layers once, before the clock starts. The sides take turns in
one process, after a run of each that is not counted; the clock is CPU time, and the figures are medians (and the best,
for the kernel is bound by reading its weights, and shares the cache with whatever else runs). At the end, the network
reads what the kernel drew, step by step: how far apart outputs are, and how many draws would have been others.
"""

import argparse
import sys
import time
from statistics import median

import torch
from ratios import Ratio, add_option, write_ratios
from torch import Tensor

from solfa.models import CategoricalHeadConfig, DmlHeadConfig, OutputHead, Sashimi, SashimiConfig
from solfa.models.sashimi.kernel.stepper import FusedStepper, fused_stepper
from solfa.ops import MulawGrid, draw_uniforms

GRID = MulawGrid(bits=8)
HEADS = {
    "categorical": CategoricalHeadConfig(),
    "dml": DmlHeadConfig(prediction_order=0),
    "dml, linear path": DmlHeadConfig(),
}


def make_model(kind: CategoricalHeadConfig | DmlHeadConfig, num_layers: int) -> tuple[Sashimi, OutputHead]:
    """Build a network with random weights, and a linear path that was fitted to noise."""
    torch.manual_seed(0)
    config, head = SashimiConfig(num_classes=GRID.num_classes, n_layers=num_layers), kind.build(GRID)
    model = Sashimi(config, head.num_parameters, kind.linear_path(GRID, config.dim)).eval()
    if model.linear_path is not None and isinstance(kind, DmlHeadConfig):
        model.linear_path.fit([0.3 * torch.randn(5000).cumsum(0).sin()], model.projection, kind.n_mixtures)
    return model, head


def generate_eagerly(model: Sashimi, head: OutputHead, uniforms: Tensor) -> None:
    classes, state = model.start(len(uniforms)), model.initial_state(len(uniforms))
    for numbers in uniforms.unbind(1):
        outputs, state = model.step(classes, state)
        classes = head.draw_with(outputs, numbers)
        head.log_prob(outputs[:, None], classes[:, None])


def measure(model: Sashimi, head: OutputHead, batch: int, options: argparse.Namespace) -> tuple[list[float], ...]:
    """Give the samples a second of each round, eager and fused."""
    stepper = make_stepper(model, head, batch)
    uniforms = draw_uniforms((batch, options.samples, head.num_uniforms), torch.Generator().manual_seed(0))
    few, eager, fused = uniforms[:, : options.eager_samples], [], []
    for _ in range(options.rounds + 1):
        start = time.process_time()
        generate_eagerly(model, head, few)
        middle = time.process_time()
        stepper.load(model.initial_state(batch))
        stepper.run(model.start(batch), uniforms)
        end = time.process_time()
        eager.append(few.shape[1] * batch / (middle - start))
        fused.append(options.samples * batch / (end - middle))
    return eager[1:], fused[1:]


def make_stepper(model: Sashimi, head: OutputHead, batch: int) -> FusedStepper:
    stepper = fused_stepper(model, head, batch)
    if stepper is None:
        sys.exit("There is no kernel to measure; the log says why.")
    return stepper


def compare(model: Sashimi, head: OutputHead, num_samples: int) -> tuple[float, float, int]:
    """Give the largest differences of outputs and log-probabilities, and the number of draws that differ."""
    uniforms = draw_uniforms((1, num_samples, head.num_uniforms), torch.Generator().manual_seed(1))
    stepper, state, classes = make_stepper(model, head, 1), model.initial_state(1), model.start(1)
    drawn = stepper.run(classes, uniforms)
    stepper.load(state)
    apart, log_prob_apart, others = 0.0, 0.0, 0
    for at in range(num_samples):
        outputs, state = model.step(classes, state)
        apart = max(apart, float((stepper.step(classes) - outputs).abs().max()))
        classes = drawn.classes[:, at]
        others += int(head.draw_with(outputs, uniforms[:, at]) != classes)
        log_prob = head.log_prob(outputs[:, None], classes[:, None])[:, 0]
        log_prob_apart = max(log_prob_apart, float((log_prob - drawn.log_prob[:, at]).abs()))
    return apart, log_prob_apart, others


@torch.no_grad()
def run(options: argparse.Namespace) -> list[Ratio]:
    torch.set_num_threads(1)
    print(f"{options.layers} layers, one thread, CPU time, {options.rounds} rounds;", end=" ")
    print(f"{torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}\n")
    print("| head | clips | eager samples/s | fused samples/s (best) | times as fast |\n|---|---|---|---|---|")
    compared: list[tuple[str, float, float, int]] = []
    ratios: list[Ratio] = []
    for name, kind in HEADS.items():
        model, head = make_model(kind, options.layers)
        with model.fixed():
            speeds: dict[int, float] = {}
            for batch in options.clips:
                eager, fused = measure(model, head, batch, options)
                slow, fast = median(eager), median(fused)
                speeds[batch] = fast
                ratios.append(Ratio(f"SaShiMi, {name}, {batch} clip(s)", "PyTorch, step by step", fast / slow))
                print(f"| {name} | {batch} | {slow:,.0f} | {fast:,.0f} ({max(fused):,.0f}) | {fast / slow:.0f}x |")
            if len(speeds) > 1:
                few, many = min(speeds), max(speeds)
                gain = Ratio(f"SaShiMi, {name}, {many} clips", f"{few} clip(s)", speeds[many] / speeds[few], 4.0)
                ratios.append(gain)
            if options.compared:
                compared.append((name, *compare(model, head, options.compared)))
    print()
    for name, apart, log_prob_apart, others in compared:
        print(
            f"{name}, {options.compared} steps: outputs within {apart:.1e}, log-probabilities within "
            f"{log_prob_apart:.1e}, {others} draws differ."
        )
    return ratios


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--eager-samples", type=int, default=128)
    parser.add_argument("--clips", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--compared", type=int, default=4096, help="steps to compare; 0 for none")
    add_option(parser)
    options = parser.parse_args(arguments)
    write_ratios(options.ratios, run(options))


if __name__ == "__main__":
    main(sys.argv[1:])
