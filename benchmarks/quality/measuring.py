"""Measure every clip after every system; what was measured before is read, not computed.

cache/CLIP/SYSTEM.json    the scores of one clip after one system; CLIP is the digest of the excerpt's samples,
                          SYSTEM that of the system's identity (a codec's fingerprint, an encoder's version)
                          and of the versions of the packages that measure
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from solfa.files import replace_atomically, value_sha256

from .clips import Clip, Mono, read_excerpt
from .competitors import System
from .metrics import Scores, score
from .speech_codecs import is_for

CACHE = "cache"
RULES_VERSION = 1
"""Of the rules in `metrics.py`; another one makes all cached numbers void."""

Progress = Callable[[int, int], None]
Content = dict[str, Any]
"""Of a cached file: scores, kbit_per_second, lag_samples."""
Compute = Callable[[Clip, System], Content]


@dataclass(frozen=True)
class Measurement:
    """One clip after one system."""

    clip: Clip
    system: str
    family: str
    kbit_per_second: float | None
    lag_samples: int
    scores: Scores

    def as_row(self) -> dict[str, str | float | None]:
        """Spell it as one row of a table."""
        row = self.clip.row
        return {
            "table": row.table,
            "kind": row.kind,
            "package": row.package,
            "recording": row.path.name,
            "start_seconds": round(self.clip.start_seconds, 3),
            "seconds": round(self.clip.seconds, 3),
            "system": self.system,
            "kbit_per_second": self.kbit_per_second,
            "lag_samples": self.lag_samples,
            **self.scores.as_dict(),
        }


Task = tuple[Clip, System, Path]


def system_keys(systems: Sequence[System], packages: Mapping[str, str]) -> Mapping[str, str]:
    """Name the cached files of every system, given the versions of the packages that measure."""
    common = {"rules": RULES_VERSION, "packages": dict(packages)}
    return {system.name: value_sha256({**common, "system": dict(system.identity())})[:20] for system in systems}


def measure(clip: Clip, system: System) -> Content:
    """Send a clip through a system and measure what comes out."""
    reference = _reference(clip)
    rendition = system.render(reference)
    scores = score(reference, rendition.audio, rendition.sample_rate, is_speech=clip.row.kind == "speech")
    return {
        "scores": scores.as_dict(),
        "kbit_per_second": rendition.kbit_per_second,
        "lag_samples": rendition.lag_samples,
    }


@lru_cache(maxsize=4)
def _reference(clip: Clip) -> Mono:
    return read_excerpt(clip)


def _measurement(clip: Clip, system: System, content: Content) -> Measurement:
    kbit, lag = content["kbit_per_second"], content["lag_samples"]
    return Measurement(clip, system.name, system.family, kbit, lag, Scores(**content["scores"]))


def measure_all(
    clips: Sequence[Clip],
    systems: Sequence[System],
    keys: Mapping[str, str],
    out: Path,
    progress: Progress,
    jobs: int = 1,
    compute: Compute = measure,
) -> list[Measurement]:
    """Measure what the cache below `out` lacks, with `jobs` processes, and return everything, clip by clip."""
    tasks: list[Task] = [
        (clip, system, out / CACHE / clip.digest[:20] / f"{keys[system.name]}.json")
        for clip in clips
        for system in systems
        if is_for(system, clip.row.kind)
    ]
    missing = [task for task in tasks if not task[2].is_file()]
    for done, (path, content) in enumerate(_computed(missing, jobs, compute), start=1):
        replace_atomically(path, json.dumps(content, indent=1).encode())
        progress(done, len(missing))
    return [_measurement(clip, system, json.loads(path.read_bytes())) for clip, system, path in tasks]


def _computed(tasks: Sequence[Task], jobs: int, compute: Compute) -> Iterator[tuple[Path, Content]]:
    if jobs == 1 or len(tasks) < 2:
        yield from ((path, compute(clip, system)) for clip, system, path in tasks)
        return
    # Not forked: torch's threads do not survive that.
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        waiting: dict[Future[Content], Path] = {
            pool.submit(compute, clip, system): path for clip, system, path in tasks
        }
        try:
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    yield waiting.pop(future), future.result()
        finally:
            for future in waiting:
                future.cancel()
