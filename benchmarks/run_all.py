"""Measure most ratios of docs/benchmarks.md that need no data and no server, and see whether one has fallen.

    python benchmarks/run_all.py --quick                       # small sizes, in about 15 minutes of an idle machine
    python benchmarks/run_all.py --out now.json --before then.json

Without --quick it takes hours, and installs what the peers need into `.venv-peers`.

Each benchmark runs as a command of its own, one after the other, and its output goes to a log beside the report. The
report is a JSON file: the machine, and for each benchmark its command, its seconds and its ratios. With --before, the
ratios that are worse by more than 15 % are listed, and the exit code is 1. `--only NAME` runs some of them; a benchmark
that fails is reported, and the others still run.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from ratios import Ratio, parse_ratios, worse_than

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Benchmark:
    """A script, and how large it is when everything is run."""

    name: str
    script: str
    quick: str | None
    """None leaves it out when it has to be quick."""
    full: str = ""

    def command(self, is_quick: bool, ratios: Path) -> list[str]:
        sizes = self.quick if is_quick else self.full
        return [sys.executable, str(HERE / self.script), *(sizes or "").split(), "--ratios", str(ratios)]


BENCHMARKS = (
    Benchmark("encoding", "codec_speed.py", "--repeats 1 --clips 8 --seconds 5"),
    Benchmark("encoding, other runtimes", "codec_runtimes.py", None),
    Benchmark("built-in codec", "built_in_codec_speed.py", "--clips 2 --repeats 3"),
    Benchmark("tiny clips", "tiny_clips.py", "--clips 2000 --rounds 1"),
    Benchmark("reading", "read_speed.py", "--clips 20000 --files 5000 --rounds 3"),
    Benchmark("loading", "load_speed.py", "--clips 20000 --rounds 3 --batches 150"),
    Benchmark("starting", "start_time.py", "--rows 10000 50000 --rounds 1"),
    Benchmark("generating", "lm_step.py", "--layers 6 --rounds 5 --bits 32 8 --batch 16"),
    Benchmark("generating, products of ggml", "ggml_products.py", None),
    Benchmark("training step", "lm_training_step.py", "--layers 4 --rounds 2"),
    Benchmark("SaShiMi, generating", "sashimi_generation.py", "--samples 1024 --rounds 3 --compared 0"),
    Benchmark("SaShiMi, training step", "sashimi_training_step.py", "--layers 2 --rounds 2"),
    Benchmark("codec losses", "codec_losses.py", "--bf16 --rounds 3", "--bf16"),
)


@dataclass(frozen=True)
class Run:
    """What a benchmark gave."""

    name: str
    command: list[str]
    seconds: float
    exit_code: int
    ratios: list[Ratio]


def run(benchmark: Benchmark, is_quick: bool, log: Path) -> Run:
    """Run one benchmark; its output goes to the end of the log."""
    with tempfile.TemporaryDirectory() as folder, log.open("a", encoding="utf-8") as output:
        ratios = Path(folder) / "ratios.json"
        command = benchmark.command(is_quick, ratios)
        output.write(f"\n=== {benchmark.name}\n")
        output.flush()
        start = time.perf_counter()
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
        found = parse_ratios(json.loads(ratios.read_text(encoding="utf-8"))) if ratios.exists() else []
    shown = [Path(part).name if part == command[1] else part for part in command[1:-2]]
    return Run(benchmark.name, shown, round(time.perf_counter() - start, 1), code, found)


def machine() -> dict[str, Any]:
    """Say what the figures were measured on."""
    return {
        "processor": platform.processor() or platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def line_of(ratio: Ratio) -> str:
    goal = "" if ratio.goal is None else f"goal {ratio.goal:g}{'' if ratio.is_reached else ', missed'}"
    return f"  {ratio.name:<56} {ratio.against:<30} {ratio.value:>7.2f}x  {goal}".rstrip()


def chosen(names: list[str], is_quick: bool) -> list[Benchmark]:
    known = {benchmark.name: benchmark for benchmark in BENCHMARKS}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"--only: expected one of {', '.join(known)}, found {unknown[0]!r}")
    small = [benchmark for benchmark in BENCHMARKS if benchmark.quick is not None]
    return [known[name] for name in names] or (small if is_quick else list(BENCHMARKS))


def read_report(path: Path) -> list[Ratio]:
    """Read all ratios of an earlier report."""
    try:
        runs = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
        return [ratio for one in runs for ratio in parse_ratios(one["ratios"])]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"--before {path}: expected a report of run_all.py, found none ({error})")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes: ratios are rougher")
    parser.add_argument("--out", type=Path, default=Path("benchmarks.json"), metavar="FILE")
    parser.add_argument("--before", type=Path, metavar="FILE", help="an earlier report of the same sizes")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="may be repeated")
    options = parser.parse_args(arguments)
    before = read_report(options.before) if options.before else []
    benchmarks, log = chosen(options.only, options.quick), options.out.with_suffix(".log")
    log.write_text("", encoding="utf-8")
    runs: list[Run] = []
    for number, benchmark in enumerate(benchmarks, start=1):
        print(f"[{number}/{len(benchmarks)}] {benchmark.name}", end=" ", flush=True)
        runs.append(run(benchmark, options.quick, log))
        print(f"{runs[-1].seconds:.0f} s" + (f", FAILED: see {log}" if runs[-1].exit_code else ""))
        print("\n".join(line_of(ratio) for ratio in runs[-1].ratios), flush=True)
        report = {"machine": machine(), "quick": options.quick, "benchmarks": [asdict(one) for one in runs]}
        options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    worse = worse_than(before, [ratio for one in runs for ratio in one.ratios])
    for ratio, change in worse:
        print(f"WORSE by {-change:.0%}: {ratio.key}, now {ratio.value:.2f}x")
    return int(bool(worse) or any(one.exit_code for one in runs))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
