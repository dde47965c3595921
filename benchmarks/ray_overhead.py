"""What does Ray cost? The same 20 shards with two encoders on this machine, and with two on a Ray cluster.

    RAY_worker_niceness=0 ray start --head --num-cpus 2 --disable-usage-stats
    python benchmarks/ray_overhead.py [--codec solfa_24khz] [--shards 20] [--rounds 3]
    ray stop

Both in turn, from the same folder into new datasets, whose files are compared. The whole call is timed, with planning,
connecting to the cluster and starting encoders, and so is the time from the first clip to the last; what is left is the
fixed part, which does not grow with the number of shards. On a machine that is busy with other things, CPU time says
more: it is that of the command, of its encoders and, with Ray, of all of Ray's own processes meanwhile. Ray's workers
give way to others unless they are told not to (RAY_worker_niceness), which a busy machine would make look like a cost.
"""

import argparse
import hashlib
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import soundfile
from codec_speed import build, synthesise

import solfa

SHARD_SECONDS, RECORDING_SECONDS, SAMPLE_RATE = 120, 30, 24000
LOOK_SECONDS = 0.25


class Run(NamedTuple):
    """One way, once."""

    whole: float
    encoding: float
    cpu: float
    files: str

    @property
    def start(self) -> float:
        """Everything before the first clip and after the last."""
        return self.whole - self.encoding


def processes() -> dict[int, tuple[int, str, float]]:
    """List processes: parent, command line and CPU seconds."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except (FileNotFoundError, ProcessLookupError):
                continue
            found[int(entry.name)] = (int(fields[1]), command, sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK"))
    return found


def used_by_family() -> dict[int, float]:
    """Say what this process, Ray's daemons, and all below them have used of the processor."""
    found = processes()
    daemons = ("/raylet/raylet", "gcs_server", "/ray/dashboard/", "log_monitor.py")
    family = {pid for pid, (_, command, _) in found.items() if any(daemon in command for daemon in daemons)}
    family.add(os.getpid())
    while more := {pid for pid, (parent, _, _) in found.items() if parent in family} - family:
        family |= more
    return {pid: found[pid][2] for pid in family}


class CpuMeter:
    """Looks at the family several times a second: Ray does not wait for its workers, and what they used is lost."""

    def __enter__(self) -> "CpuMeter":
        self._before, self._latest = used_by_family(), {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            self._latest |= used_by_family()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self._latest |= used_by_family()
        self.seconds = sum(used - self._before.get(pid, 0.0) for pid, used in self._latest.items())


def measure(source: Path, dest: Path, codec: str, executor: str) -> Run:
    with CpuMeter() as meter:
        began = time.monotonic()
        report = solfa.encode(source, dest, codec=codec, num_encoders=2, executor=executor, device="cpu")
        whole = time.monotonic() - began
    digest = hashlib.sha256()
    for path in sorted(path for path in dest.rglob("*") if path.is_file() and ".tmp" not in path.parts):
        digest.update(path.relative_to(dest).as_posix().encode() + path.read_bytes())
    return Run(whole, report.encode_seconds, meter.seconds, digest.hexdigest())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codec", default="solfa_24khz", help="or encodec_24khz and others, with random weights")
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    runs: dict[str, list[Run]] = {"local": [], "ray": []}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        clips = [synthesise(index, SAMPLE_RATE) for index in range(4)]
        codec = options.codec
        if codec != "solfa_24khz":
            build(codec, work / "model", clips)
            codec = str(work / "model")
        (work / "audio").mkdir()
        repeats = -(-RECORDING_SECONDS * SAMPLE_RATE // len(clips[0]))
        for index in range(options.shards * SHARD_SECONDS // RECORDING_SECONDS):
            audio = list(clips[index % 4]) * repeats
            soundfile.write(work / f"audio/{index:03d}.wav", audio[: RECORDING_SECONDS * SAMPLE_RATE], SAMPLE_RATE)
        for number in range(options.rounds):
            for executor, done in runs.items():
                done.append(measure(work / "audio", work / f"{executor}{number}.solfa", codec, executor))
                print(f"{executor:>5}: {done[-1]._replace(files=done[-1].files[:8])}", flush=True)
        shards = len(list((work / "ray0.solfa/commit").iterdir()))
    same = len({run.files for done in runs.values() for run in done}) == 1
    print(f"{shards} shards of {options.codec}, {'the same files each time' if same else 'FILES DIFFER'}")
    for field in ("whole", "encoding", "start", "cpu"):
        local, ray = (statistics.median(getattr(run, field) for run in done) for done in runs.values())
        print(f"{field:>9}: local {local:.1f} s, Ray {ray:.1f} s, {ray - local:+.1f} s, {ray / local - 1:+.1%}")


if __name__ == "__main__":
    main()
