"""Hash what the debug runs compute, so that a change which should change nothing can be shown to change nothing.

    python benchmarks/debug_digests.py before.json           # on the old commit
    python benchmarks/debug_digests.py after.json before.json  # on the new one: exit code 1 and a list if they differ

A run is its losses, its best weights, the clips that it generated and those that `solfa generate` draws from it. The
numbers are those of one kind of processor and one version of torch: compare files of the same machine only.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = {
    "lm": ["solver=lm/debug"],
    "mot": ["solver=mot/debug"],
    "sashimi": ["solver=sashimi/debug"],
    "sashimi-dml": ["experiment=audio/sashimi-dml-debug"],
    "compression": ["solver=compression/debug"],
}
ASKED = {"lm": "1", "mot": "0.5", "sashimi": "0.2", "sashimi-dml": "0.2"}
"""Seconds of audio that `solfa generate` draws."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="where the hashes go, as JSON")
    parser.add_argument("before", type=Path, nargs="?", help="hashes to compare with")
    parser.add_argument("--only", nargs="*", choices=RUNS, default=list(RUNS))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {"demo": _demo(Path(folder)), **{name: _run(name, Path(folder) / name) for name in arguments.only}}
    arguments.out.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    print(f"{sum(map(len, found.values()))} hashes in {arguments.out}")
    if arguments.before is not None:
        _compare(json.loads(arguments.before.read_text()), found)


def _demo(folder: Path) -> dict[str, str]:
    out = folder / "demo"
    _solfa(folder, "demo", "--out", str(out))
    (dataset,) = out.glob("*.solfa")
    return {str(path.relative_to(dataset)): _sha(path) for path in sorted((dataset / "data").iterdir())}


def _run(name: str, folder: Path) -> dict[str, str]:
    _solfa(folder, "train", *RUNS[name], "device=cpu", "num_threads=1")
    (xp,) = (path for path in (folder / "xps").iterdir() if not path.name.startswith("."))
    found = {"signature": xp.name, "history": _sha(xp / "history.json"), "best": _weights(xp / "best.pt")}
    if name in ASKED:
        out = folder / "asked"
        _solfa(folder, "generate", xp.name, "--seconds", ASKED[name], "--num", "2", "--seed", "7", "--out", str(out))
    clips = sorted([*(xp / "samples").rglob("*.wav"), *folder.glob("asked/*.wav")])
    return {**found, **{str(path.relative_to(folder)).replace(xp.name, "XP"): _sound(path) for path in clips}}


def _solfa(folder: Path, *arguments: str) -> None:
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "SOLFA_DORA_DIR": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "from solfa.cli.main import main; main()", *arguments]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def _weights(path: Path) -> str:
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(torch.load(path, weights_only=True)["states"]["model"].items()):
        if isinstance(tensor, torch.Tensor):
            digest.update(name.encode())
            digest.update(tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.ndim else b"")
    return digest.hexdigest()[:16]


def _sound(path: Path) -> str:
    """Hash the samples: the header of a float WAV holds the time of writing."""
    import soundfile

    samples, rate = soundfile.read(path, dtype="float32")
    return f"{rate}:{hashlib.sha256(samples.tobytes()).hexdigest()[:16]}"


def _sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def _compare(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> None:
    differing = [
        f"{run}: {key}: {before.get(run, {}).get(key)} became {after[run].get(key)}"
        for run in after
        for key in sorted({*before.get(run, {}), *after[run]})
        if before.get(run, {}).get(key) != after[run].get(key)
    ]
    print("\n".join(differing) or "nothing changed")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
