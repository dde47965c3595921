"""Does a mixture of logistics pay? SaShiMi with either head, on several grids, beside anchors that cost nothing.

    python benchmarks/sashimi_heads.py AUDIO... --out heads/ [--updates 1000] [--seeds 0,1] [--picture curves.svg]

AUDIO are files or folders. One recording of ten, by a hash of its name, is held out. Every contender has the same
backbone with the same initial weights, reads the same crops in the same order, and makes the same updates with the
same rates; what it reads and predicts is rounded to its own grid. Scored are excerpts of held-out recordings, each from
its own beginning and as long as a crop, in bits per sample: on the contender's grid, and on the cells of 8-bit mu-law
and of 8-bit linear, which a mixture fills exactly, by differences of its distribution function.

Finished runs are kept in --out and not made again. Writes results.json, table.md and, where asked for, the picture.
One thread; seconds are CPU seconds.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from waveform_heads.anchors import Anchors, measure_anchors
from waveform_heads.contenders import CONTENDERS, OTHER_INPUTS, Contender
from waveform_heads.recordings import Excerpts, Split, held_out_excerpts, read_split
from waveform_heads.report import curves, markdown
from waveform_heads.training import Settings, run

from solfa.errors import ConfigError, SolfaError
from solfa.files import replace_atomically


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("audio", nargs="+", type=Path, metavar="AUDIO")
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--picture", type=Path, help="an SVG of the curves")
    made.add_argument("--sample-rate", type=int, default=16_000)
    made.add_argument("--seeds", default="0", help="e.g. 0,1")
    made.add_argument(
        "--only",
        default="",
        help="names of contenders, e.g. dml-path-mulaw8",
    )
    made.add_argument("--updates", type=int, default=1000)
    made.add_argument("--clips", type=int, default=2, help="crops of an update")
    made.add_argument("--samples", type=int, default=4096, help="of a crop")
    made.add_argument("--dim", type=int, default=32)
    made.add_argument("--layers", type=int, default=2)
    made.add_argument("--d-state", type=int, default=64)
    made.add_argument("--lr", type=float, default=4e-3)
    made.add_argument("--dynamics-lr", type=float, default=1e-3)
    made.add_argument("--free-running", type=float, default=0.0, help="weight of the levels in own draws, e.g. 1")
    made.add_argument("--power-weight", type=float, default=0.0, help="of powers among the levels in own draws")
    made.add_argument("--moment-weight", type=float, help="of mixtures with a linear path, instead of the library's")
    made.add_argument("--excerpts", type=int, default=4, help="of a held-out recording")
    return made


def chosen(names: str) -> list[Contender]:
    """Find contenders by their names."""
    known = {contender.name: contender for contender in (*CONTENDERS, *OTHER_INPUTS)}
    wanted = names.split(",") if names else [contender.name for contender in CONTENDERS]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ConfigError(f"--only: expected names among {', '.join(known)}, found {unknown[0]!r}")
    return [known[name] for name in wanted]


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def describe(split: Split, num_excerpts: int, num_samples: int) -> str:
    learned, held = split.seconds(split.train), split.seconds(split.held_out)
    return (
        f"{len(split.train)} recordings ({learned:,.0f} s) to learn from, {len(split.held_out)} ({held:,.0f} s) held "
        f"out; scored: {num_excerpts} excerpts of {num_samples} samples "
        f"({num_excerpts * num_samples / split.sample_rate:,.0f} s) at {split.sample_rate} Hz"
    )


def check_same_data(path: Path, data: str) -> None:
    """Refuse a folder that holds runs on something else."""
    if not path.exists():
        replace_atomically(path, data.encode())
    elif path.read_text() != data:
        raise ConfigError(f"{path}: expected {data}; found {path.read_text()}; give another --out")


def kept_anchors(path: Path, split: Split, excerpts: Excerpts) -> Anchors:
    """Measure the anchors, unless they were."""
    if not path.exists():
        anchors = measure_anchors(split.train, excerpts.audio, split.sample_rate)
        replace_atomically(path, json.dumps(anchors).encode())
    kept: Anchors = json.loads(path.read_text())
    return kept


def compare(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    split = read_split(options.audio, options.sample_rate, options.samples)
    excerpts = held_out_excerpts(split.held_out, options.excerpts, options.samples)
    data = describe(split, len(excerpts.audio), options.samples)
    tell(data)
    check_same_data(options.out / "data.txt", data)
    settings = Settings(
        options.updates,
        options.clips,
        options.samples,
        options.dim,
        options.layers,
        options.d_state,
        options.lr,
        options.dynamics_lr,
        free_running=options.free_running,
        power_weight=options.power_weight,
        moment_weight=options.moment_weight,
    )
    seeds = [int(seed) for seed in options.seeds.split(",")]
    contenders = chosen(options.only)
    results = [run(one, seed, settings, split, excerpts, options.out, tell) for seed in seeds for one in contenders]
    anchors = kept_anchors(options.out / "anchors.json", split, excerpts)
    report = {"data": data, "runs": results, "anchors": anchors, "recordings": excerpts.recordings}
    replace_atomically(options.out / "results.json", json.dumps(report).encode())
    table = f"{data}\n\n{markdown(results, anchors, excerpts.recordings)}"
    replace_atomically(options.out / "table.md", table.encode())
    if options.picture is not None:
        replace_atomically(options.picture, str(curves(results)).encode())
    print(table)


def main() -> None:
    try:
        compare(parser().parse_args())
    except SolfaError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
