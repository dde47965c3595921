"""What a step of generation costs, part by part, beside the time that reading its weights takes.

    python benchmarks/lm_step.py [--layers 24] [--rounds 9] [--bits 32 16 8 4] [--frames 16 1500] [--batch 16] [--plain]

A decoder of MusicGen-small's size with random weights, a text of eight tokens, guidance 3 (two rows a clip), top-k 250,
one thread, CPU time. Everything of as many bits is in memory at once and runs in turn, together with the reading:
`Tensor.sum` over as many bytes as a step reads. Ratios are medians of those within a round, so that other programs,
which share the memory, disturb them less. Ways: `torch` are the layers of solfa.nn, `kernel` its C code, with keys and
values in 16 bits or in 8, and `quantize_dynamic` torch.ao's, on the same model.

A step at N frames is measured over a cache of N steps; `besides` is what it takes longer than its products alone.
"""

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from statistics import median

import torch
from ratios import Ratio, add_option, write_ratios
from torch import nn

from solfa.environment import worker_environment
from solfa.models import CodecLM, CodecLMConfig, Conditions, lay_out_weights
from solfa.nn.kernels.structures import load_decoder
from solfa.nn.linears.compiled import CompiledLinear
from solfa.ops import draw

CODEBOOKS, CODEBOOK_SIZE, DIM, HEADS, FFN_DIM, TEXT_TOKENS = 4, 2048, 1024, 16, 4096, 8
LAYOUTS = {32: "fp32", 16: "fp16", 8: "int8", 4: "int4"}
BYTES_PER_WEIGHT = {32: 4.0, 16: 2.0, 8: 1.0, 4: 4.5 / 8}

Work = Callable[[], object]


def new_model(num_layers: int) -> CodecLM:
    """Build a model whose weights repeat a million random numbers: fast, and as good as others to measure time."""
    config = CodecLMConfig(
        num_codebooks=CODEBOOKS,
        codebook_size=CODEBOOK_SIZE,
        dim=DIM,
        num_layers=num_layers,
        num_heads=HEADS,
        ffn_dim=FFN_DIM,
        cross_attention=True,
    )
    with torch.device("meta"):
        model = CodecLM(config)
    numbers = 0.02 * torch.randn(1 << 20)
    for parameter in model.to_empty(device="cpu").parameters():
        for piece in parameter.data.view(-1).split(len(numbers)):
            piece.copy_(numbers[: len(piece)])
    return model.eval()


def dynamically_quantised(model: CodecLM) -> CodecLM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8, inplace=True)


def ways_of(bits: int, options: argparse.Namespace) -> dict[str, CodecLM]:
    """Lay out the weights in every way; one by one, because float32 takes much memory."""
    ways: dict[str, CodecLM] = {}
    if bits != 4:
        ways["torch"] = lay_out_weights(new_model(options.layers), LAYOUTS[bits], "torch")
    if bits == 8:
        ways["quantize_dynamic"] = dynamically_quantised(new_model(options.layers))
    ways["kernel"] = lay_out_weights(new_model(options.layers), LAYOUTS[bits], "kernel", 16)
    ways["kernel, 8-bit cache"] = lay_out_weights(new_model(options.layers), LAYOUTS[bits], "kernel", 8)
    if bits == 32 and options.plain:
        ways["plain"] = new_model(options.layers)
    return ways


def step_of(model: CodecLM, batch: int, num_frames: int) -> Work:
    """One step of guided clips whose cache is full, as `generate` does it."""
    cross = torch.randn(batch, TEXT_TOKENS, DIM)
    conditions = Conditions(cross=cross).doubled_with_null()
    cache = model.new_cache(2 * batch, num_frames)
    for part in (*cache.keys, *cache.values, *(cache.scales or ())):
        part.copy_(torch.randint(-9, 9, part.shape, dtype=torch.int8))
    tokens = torch.randint(0, CODEBOOK_SIZE, (batch, CODEBOOKS, 1))
    generators = [torch.Generator().manual_seed(seed) for seed in range(batch)]

    def step() -> object:
        cache.position = num_frames - 1
        hidden = model.hidden(tokens.repeat(2, 1, 1), conditions, cache)
        conditional, unconditional = model.logits(hidden)[:, :, 0].chunk(2)
        return draw(torch.lerp(unconditional, conditional, 3.0), 1.0, 250, 0.0, generators)

    return step


def products_of(model: CodecLM, batch: int) -> Work:
    """Only the products with the weights of a step; those in C without what Python adds to each, as in a step."""
    names = ("qkv", "query", "out", "fc1", "fc2", "heads")
    linears = [module for name, module in model.named_modules() if name.rsplit(".", 1)[-1] in names]
    inputs = {width: torch.randn(2 * batch, width) for width in (DIM, FFN_DIM)}
    if not all(isinstance(linear, CompiledLinear) for linear in linears):
        return lambda: [linear(inputs[linear.in_features]) for linear in linears]
    kernel, matrices = load_decoder(), [linear.structure() for linear in linears]
    made = torch.empty(2 * batch, max(matrix.width_out for matrix in matrices))
    scratch = torch.empty(max(kernel.multiply_bytes(matrix, 2 * batch) for matrix in matrices), dtype=torch.uint8)

    def multiply() -> None:
        for matrix in matrices:
            x = inputs[matrix.width_in].data_ptr()
            kernel.multiply(matrix, x, made.data_ptr(), 2 * batch, scratch.data_ptr(), 1)

    return multiply


def read_all(num_bytes: float) -> Work:
    """Sum as many bytes, in pieces of the size of a matrix; some are read again, long after they left the caches."""
    pieces = [torch.randn(FFN_DIM, DIM) for _ in range(32)]
    num_pieces = max(1, round(num_bytes / pieces[0].nbytes))
    return lambda: [pieces[index % len(pieces)].sum() for index in range(num_pieces)]


def interleave(work: Mapping[str, Work], rounds: int) -> dict[str, list[float]]:
    """Run each in turn, twice unmeasured; CPU seconds."""
    taken: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(rounds + 2):
        for name, run in work.items():
            start = time.process_time()
            run()
            if turn > 1:
                taken[name].append(time.process_time() - start)
    return taken


def ratio(taken: Mapping[str, list[float]], over: str, under: str) -> float:
    return median(a / b for a, b in zip(taken[over], taken[under], strict=True))


def count_weights(num_layers: int) -> int:
    """Count what a step reads: all linear layers but the keys and values of the cross-attention, which are kept."""
    layer = (4 + 2) * DIM**2 + 2 * DIM * FFN_DIM
    return num_layers * layer + CODEBOOKS * CODEBOOK_SIZE * DIM


def measure(bits: int, options: argparse.Namespace) -> list[Ratio]:
    num_bytes = count_weights(options.layers) * BYTES_PER_WEIGHT[bits]
    ways = ways_of(bits, options)
    short, long = min(options.frames), max(options.frames)
    work = {"read": read_all(num_bytes)}
    for way, laid_out in ways.items():
        work[f"{way} products"] = products_of(laid_out, 1)
        work[f"{way} {short}"] = step_of(laid_out, 1, short)
        work[f"{way} {long}"] = step_of(laid_out, 1, long)
        if options.batch > 1:
            work[f"{way} batch"] = step_of(laid_out, options.batch, short)
    taken = interleave(work, options.rounds)
    speed = num_bytes / median(taken["read"]) / 1e9
    print(f"\n{bits} bits: {num_bytes / 1e9:.2f} GB in {median(taken['read']) * 1e3:.1f} ms ({speed:.1f} GB/s)\n")
    print(f"| way | ms a step | of the reading speed | products alone | besides | at {long} frames ", end="")
    print(f"| {options.batch} clips |")
    print("|---|---|---|---|---|---|---|")
    for way in ways:
        step, products = (median(taken[f"{way} {part}"]) * 1e3 for part in (short, "products"))
        many = f"{median(taken[f'{way} batch']) * 1e3:.0f} ms" if options.batch > 1 else ""
        print(
            f"| {way} | {step:.1f} | {ratio(taken, 'read', f'{way} {short}'):.0%} "
            f"| {ratio(taken, 'read', f'{way} products'):.0%} | {step - products:.1f} ms "
            f"| {ratio(taken, f'{way} {long}', f'{way} {short}'):.2f}x | {many} |",
            flush=True,
        )
    return ratios_of(bits, taken, (short, long))


def ratios_of(bits: int, taken: Mapping[str, list[float]], frames: tuple[int, int]) -> list[Ratio]:
    """Compare the kernel with the reading of its weights, with torch's layers, and a long clip with a short one."""
    (short, long), way = frames, "kernel, 8-bit cache" if bits < 16 else "kernel"
    name, step = f"generating, {bits} bits", f"{way} {short}"
    ratios = [
        Ratio(name, "reading its weights", ratio(taken, "read", step), 0.8 if bits == 32 else None),
        Ratio(f"{name}, {long} frames", f"{short} frames", ratio(taken, f"{way} {long}", step), 1.3, "lower"),
    ]
    for peer, goal in (("torch", None), ("quantize_dynamic", 1.0)):
        if f"{peer} {short}" in taken:
            ratios.append(Ratio(name, peer, ratio(taken, f"{peer} {short}", step), goal))
        if f"{peer} batch" in taken:
            ratios.append(Ratio(f"{name}, many clips", peer, ratio(taken, f"{peer} batch", f"{way} batch"), goal))
    return ratios


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    machine = f"{torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"
    print(f"{options.layers} layers, {options.rounds} rounds, {machine}")
    with torch.inference_mode():
        write_ratios(options.ratios, [found for bits in options.bits for found in measure(bits, options)])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--bits", type=int, nargs="+", default=list(LAYOUTS), choices=list(LAYOUTS))
    parser.add_argument("--frames", type=int, nargs=2, default=[16, 1500])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--plain", action="store_true", help="also measure float32 as it was trained")
    parser.add_argument("--in-child", action="store_true", help=argparse.SUPPRESS)
    add_option(parser)
    options = parser.parse_args(arguments)
    if options.in_child:
        run(options)
        return
    # The allocator reads its settings when a process starts.
    command = [sys.executable, __file__, *arguments, "--in-child"]
    sys.exit(subprocess.run(command, env=worker_environment(os.environ), check=False).returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
