"""Products of a few rows with weights of 8 and 4 bits: Solfa's C kernel beside ggml, with one thread.

    python benchmarks/ggml_products.py [--rounds 15] [--matrices 24] [--libraries FOLDER]

ggml comes as a wheel of its libraries (libggml-python, built for AVX2) into an environment of its own (`--environment
DIR`, made with pip where it is missing), and runs there in a process of one thread, with memory in large pages as
Solfa's weights have it. `--libraries FOLDER` takes other builds instead, such as one for this processor: a folder with
libggml-base and one or more libggml-cpu, of which ggml chooses.

A matrix of 4096 x 1024 random weights stands in memory as often as `--matrices` says, so that no cache holds them all.
Figures are CPU time per matrix, medians of rounds in which everything ran in turn; a ratio is the median of those of
the rounds, and above 1 where Solfa is faster. Of the layouts that ggml has for its weights, the fastest counts, for
each line on its own. Errors are relative to the product in float64 with the weights before they were rounded: q8_0
has a scale for each 32 weights and rounds rows to 8 bits, Solfa's int8 has one for each output and rows of 16 bits;
q4_0 and Solfa's int4 both have a scale for each 32 weights and rows of 8 bits.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from peers.environments import python_of
from ratios import Ratio, add_option, write_ratios
from torch import Tensor

from solfa.environment import worker_environment
from solfa.nn.kernels.formats import Int4Format, Int8Format, WeightFormat
from solfa.nn.kernels.memory_block import BlockBuilder
from solfa.nn.kernels.structures import Linear, load_decoder

PACKAGES = ("--only-binary", ":all:", "libggml-python==0.20.2.post1", "numpy")
MODULE = "libggml"
SCRIPT = Path(__file__).parent / "peers" / "ggml_library.py"
FORMATS: dict[int, WeightFormat] = {8: Int8Format(), 4: Int4Format()}
NUM_ROWS = (1, 2, 32)
NUM_OUT, NUM_IN = 4096, 1024
FEW_ROWS = 2
"""Up to here, Solfa should be at least as fast: a clip without guidance, or with it."""


@dataclass(frozen=True)
class Side:
    """What one library took for the products of a line, round by round, and how far it was off."""

    name: str
    seconds: Sequence[float]
    error: float


@dataclass(frozen=True)
class Case:
    """A line of the table."""

    bits: int
    num_rows: int
    ours: Side
    layouts: Sequence[Side]
    """Of ggml, each with another order of the weights."""

    @property
    def ggml(self) -> Side:
        return min(self.layouts, key=lambda side: median(side.seconds))

    @property
    def ratio(self) -> float:
        return median(a / b for a, b in zip(self.ggml.seconds, self.ours.seconds, strict=True))


class Products:
    """Solfa's side: the same weights at several places, as a model would have them."""

    def __init__(self, kind: WeightFormat, weight: Tensor, num_matrices: int) -> None:
        self._kernel = load_decoder()
        self._packed = kind.pack(weight, self._kernel.panel)
        shelf = BlockBuilder([self._packed.weights.numel()] * num_matrices)
        self._places = [shelf.put(self._packed.weights) for _ in range(num_matrices)]
        (num_out, num_in), scales = weight.shape, self._packed.scales.data_ptr()
        self._matrices = [Linear(kind.code, num_in, num_out, one.data_ptr(), scales) for one in self._places]
        self._num_out = num_out

    def measure(self, rows: Tensor) -> tuple[float, Tensor]:
        """Multiply by every matrix; return CPU seconds, and the results of all."""
        kernel, num_rows = self._kernel, len(rows)
        made = torch.zeros(len(self._matrices), num_rows, self._num_out)
        scratch = torch.zeros(kernel.multiply_bytes(self._matrices[0], num_rows), dtype=torch.uint8)
        pointers = [one.data_ptr() for one in made]
        x, memory = rows.data_ptr(), scratch.data_ptr()
        start = time.process_time()
        for matrix, pointer in zip(self._matrices, pointers, strict=True):
            kernel.multiply(matrix, x, pointer, num_rows, memory, 1)
        return time.process_time() - start, made


class Ggml:
    """ggml's side: a process that is asked for one measurement at a time, so that both sides run in turn."""

    def __init__(self, python: Path, libraries: str, folder: Path, num_matrices: int) -> None:
        command = [str(python), str(SCRIPT), str(folder), libraries, *map(str, (num_matrices, *NUM_ROWS))]
        environment = worker_environment(os.environ, one_thread=True)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
        self.found: dict[str, Any] = self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"expected an answer of ggml's process, found that it ended with code {self._process.wait()}")
        return json.loads(line)

    def layouts(self, bits: int, num_rows: int) -> list[str]:
        parts = [name.split() for name in self.found["work"]]
        return [layout for *sizes, layout in parts if sizes == [str(bits), str(num_rows)]]

    def measure(self, bits: int, num_rows: int, layout: str) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{bits} {num_rows} {layout}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        self._process.communicate()


def relative_error(result: Tensor, rows: Tensor, weight: Tensor) -> float:
    """Compare a result with the product in float64: the norm of what is wrong, by that of what is right."""
    right = rows.double() @ weight.double().mT
    return float((result.double() - right).norm() / right.norm())


def compare(ggml: Ggml, folder: Path, weight: Tensor, rows: Tensor, options: argparse.Namespace) -> list[Case]:
    cases = []
    for bits, kind in FORMATS.items():
        products = Products(kind, weight, options.matrices)
        for num_rows in NUM_ROWS:
            x, layouts = rows[:num_rows].contiguous(), ggml.layouts(bits, num_rows)
            result = products.measure(x)[1][-1]
            taken: dict[str, list[float]] = {name: [] for name in ("", *layouts)}
            for _ in range(options.rounds):
                for name, found in taken.items():
                    seconds = ggml.measure(bits, num_rows, name) if name else products.measure(x)[0]
                    found.append(seconds / options.matrices)
            sides = []
            for name in layouts:
                theirs = torch.from_numpy(np.load(folder / f"{bits}-{num_rows}-{name}.npy"))
                sides.append(Side(name, taken[name], relative_error(theirs, x, weight)))
            ours = Side("kernel", taken[""], relative_error(result, x, weight))
            cases.append(Case(bits, num_rows, ours, sides))
    return cases


def table(cases: Iterable[Case]) -> str:
    lines = [
        "| bits | rows | ggml, us | its layout | Solfa, us | Solfa is | error of ggml | of Solfa |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        theirs, ours = (median(side.seconds) * 1e6 for side in (case.ggml, case.ours))
        lines.append(
            f"| {case.bits} | {case.num_rows} | {theirs:.0f} | {case.ggml.name} | {ours:.0f} | {case.ratio:.2f}x "
            f"| {case.ggml.error:.2%} | {case.ours.error:.2%} |"
        )
    return "\n".join(lines)


def ratios_of(cases: Iterable[Case]) -> list[Ratio]:
    """Only few rows have a goal: what a step of one clip multiplies."""
    return [
        Ratio(
            f"products, {case.bits} bits, {case.num_rows} row{'s' if case.num_rows > 1 else ''}",
            "ggml",
            case.ratio,
            1.0 if case.num_rows <= FEW_ROWS else None,
        )
        for case in cases
    ]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--matrices", type=int, default=24)
    parser.add_argument("--environment", type=Path, default=Path(".venv-peers/ggml"), help="where ggml is or comes")
    parser.add_argument("--libraries", type=Path, metavar="FOLDER", help="other builds of ggml than those of the wheel")
    add_option(parser)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    weight = 0.02 * torch.randn(NUM_OUT, NUM_IN, generator=generator)
    rows = torch.randn(max(NUM_ROWS), NUM_IN, generator=generator)
    python = Path(sys.executable) if options.libraries else python_of(options.environment, PACKAGES)
    libraries = str(options.libraries.absolute()) if options.libraries else MODULE
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "weight.npy", weight.numpy())
        np.save(folder / "rows.npy", rows.numpy())
        with closing(Ggml(python, libraries, folder, options.matrices)) as ggml:
            print(f"ggml {ggml.found['version']}, built for {', '.join(ggml.found['instructions'])}; ", end="")
            print(f"panels of {load_decoder().panel} outputs in Solfa's kernel; {options.rounds} rounds\n", flush=True)
            cases = compare(ggml, folder, weight, rows, options)
    print(table(cases))
    write_ratios(options.ratios, ratios_of(cases))


if __name__ == "__main__":
    main(sys.argv[1:])
