"""Measures of a set of recordings: a number, how sure it is, and what it would be for real sounds and for noise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solfa.evaluate.embedding_cache import EmbeddedSet
from solfa.ops.embedding_distances import (
    KAD_SCALE,
    KernelSums,
    fad,
    fad_infinity,
    kad,
    kernel_sums,
    median_distance,
    tag_divergence,
)
from solfa.ops.recording_bootstrap import Interval, draw_times, interval_of, mean_draws, split_floor

NUM_DRAWS, FAD_DRAWS, FAD_INFINITY_DRAWS = 1000, 100, 40
NUM_SPLITS, FAD_SPLITS = 20, 4
_REFERENCE, _GENERATED = 0, 1
"""What is added to the seed to draw either set."""
_UNKNOWN = Interval(float("nan"), float("nan"))


@dataclass(frozen=True, eq=False)
class Measure:
    """One number about a set of recordings.

    >>> import solfa
    >>> report = solfa.evaluate("audio/", reference="audio/", embedder="mel", metrics=["kad"])
    >>> measure = report["kad"]
    >>> measure.num_recordings, measure.interval.low < measure.interval.high
    (5, True)
    """

    name: str
    value: float
    interval: Interval
    """Where it lies 19 times out of 20, if recordings are drawn again."""
    num_recordings: int
    num_reference: int | None = None
    floor: float | None = None
    """What real sounds reach: two halves of the reference, or the reference itself."""
    ceiling: float | None = None
    """What noise reaches."""
    unit: str = ""
    higher_is_better: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers, such as the distance as other tools compute it."""
    draws: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0), repr=False)
    """The number for recordings that were drawn again; the draws of two runs against one reference belong together."""

    def as_dict(self) -> dict[str, Any]:
        """Spell it in plain values; what is unknown is None."""
        return {
            "name": self.name,
            "value": finite(self.value),
            "low": finite(self.interval.low),
            "high": finite(self.interval.high),
            "floor": finite(self.floor),
            "ceiling": finite(self.ceiling),
            "unit": self.unit,
            "better": "higher" if self.higher_is_better else "lower",
            "num_recordings": self.num_recordings,
            "num_reference": self.num_reference,
            **self.facts,
        }


def finite(value: float | None) -> float | None:
    """Turn what JSON cannot hold into None."""
    return None if value is None or not np.isfinite(value) else float(value)


def measure_kad(
    reference: EmbeddedSet, generated: EmbeddedSet, noise: EmbeddedSet | None, seed: int
) -> tuple[Measure, KernelSums]:
    """Measure the kernel audio distance over pairs of different recordings; also returns the kernel."""
    bandwidth = median_distance(reference.frames)
    sums = _sums(reference, generated, bandwidth)
    value = _discrepancy(sums)
    times = _times(reference, generated, NUM_DRAWS, seed)
    draws = np.array([KAD_SCALE * sums.discrepancy(*pair) for pair in zip(*times, strict=True)])
    floor = KAD_SCALE * split_floor(len(reference), sums.between_halves, NUM_SPLITS, seed)
    facts = {
        "bandwidth": bandwidth,
        "over_all_windows": finite(kad(reference.frames, generated.frames, bandwidth)),
        "num_windows": len(generated.frames),
        "num_reference_windows": len(reference.frames),
    }
    ceiling = None if noise is None else _discrepancy(_sums(reference, noise, bandwidth))
    sizes = len(generated), len(reference)
    return Measure("kad", value, interval_of(value, draws), *sizes, floor, ceiling, facts=facts, draws=draws), sums


def _sums(reference: EmbeddedSet, other: EmbeddedSet, bandwidth: float) -> KernelSums:
    copies = np.array(reference.keys)[:, None] == np.array(other.keys)
    return kernel_sums(reference.frames, reference.owners, other.frames, other.owners, bandwidth, copies)


def _discrepancy(sums: KernelSums) -> float:
    return KAD_SCALE * sums.discrepancy(np.ones(len(sums.reference)), np.ones(len(sums.generated)))


def _times(
    reference: EmbeddedSet, generated: EmbeddedSet, num_draws: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return (
        draw_times(len(reference), num_draws, 2 * seed + _REFERENCE),
        draw_times(len(generated), num_draws, 2 * seed + _GENERATED),
    )


def measure_fad(reference: EmbeddedSet, generated: EmbeddedSet, noise: EmbeddedSet | None, seed: int) -> Measure:
    """Measure the Frechet audio distance; for few windows most of it is bias, which its interval takes out."""
    value = fad(reference.frames, generated.frames)
    times = _times(reference, generated, FAD_DRAWS, seed)
    draws = [
        fad(reference.frames, generated.frames, one[reference.owners], other[generated.owners])
        for one, other in zip(*times, strict=True)
    ]

    def between(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
        halves = (reference.frames[np.isin(reference.owners, part)] for part in (one, other))
        return fad(*halves)

    return Measure(
        "fad",
        value,
        interval_of(value, np.array(draws)),
        len(generated),
        len(reference),
        split_floor(len(reference), between, FAD_SPLITS, seed),
        None if noise is None else fad(reference.frames, noise.frames),
        facts={"num_windows": len(generated.frames), "num_reference_windows": len(reference.frames)},
        draws=np.array(draws),
    )


def measure_fad_infinity(
    reference: EmbeddedSet, generated: EmbeddedSet, noise: EmbeddedSet | None, seed: int
) -> Measure:
    """Measure the Frechet audio distance as if there were infinitely many generated recordings."""
    value = fad_infinity(reference.frames, generated.frames, generated.owners, seed)
    draws = []
    for number, times in enumerate(draw_times(len(generated), FAD_INFINITY_DRAWS, 2 * seed + _GENERATED)):
        again = generated.select(np.repeat(np.arange(len(generated)), times.astype(int)).tolist())
        draws.append(fad_infinity(reference.frames, again.frames, again.owners, seed + number + 1))

    def between(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
        first, second = reference.select(one.tolist()), reference.select(other.tolist())
        return fad_infinity(first.frames, second.frames, second.owners, seed)

    return Measure(
        "fad_infinity",
        value,
        interval_of(value, np.array(draws)),
        len(generated),
        len(reference),
        split_floor(len(reference), between, FAD_SPLITS, seed),
        None if noise is None else fad_infinity(reference.frames, noise.frames, noise.owners, seed),
        draws=np.array(draws),
    )


def measure_kld(
    reference: EmbeddedSet, generated: EmbeddedSet, noise: EmbeddedSet | None, seed: int
) -> tuple[Measure, NDArray[np.float64]]:
    """Measure how far the tags of each clip are from those of its pair; both sets are paired, row by row.

    The floor compares the first half of every reference recording with its second half.
    """
    wanted = reference.of_recordings(reference.tags)
    each = tag_divergence(wanted, generated.of_recordings(generated.tags))
    draws = mean_draws(each, NUM_DRAWS, 2 * seed + _GENERATED)
    ceiling = None
    if noise is not None:
        heard = noise.of_recordings(noise.tags)
        ceiling = float(tag_divergence(wanted, heard[np.arange(len(wanted)) % len(heard)]).mean())
    value = float(each.mean())
    sizes = len(generated), len(reference)
    interval = interval_of(value, draws)
    return Measure("kld", value, interval, *sizes, _halves_floor(reference), ceiling, "nats", draws=draws), each


def _halves_floor(reference: EmbeddedSet) -> float:
    distances = []
    for row in range(len(reference)):
        tags = reference.tags[reference.owners == row]
        if len(tags) >= 2:
            one, other = (part.mean(axis=0, keepdims=True) for part in (tags[: len(tags) // 2], tags[len(tags) // 2 :]))
            distances.append(float(tag_divergence(one, other)[0]))
    return float(np.mean(distances)) if distances else float("nan")


def mean_measure(
    name: str, values: NDArray[np.float64], seed: int, *, unit: str = "", higher_is_better: bool = False
) -> Measure:
    """Average a number that every clip has; clips without it (NaN) are left out."""
    known = values[np.isfinite(values)]
    about: dict[str, Any] = {"unit": unit, "higher_is_better": higher_is_better}
    if not len(known):
        return Measure(name, float("nan"), _UNKNOWN, 0, **about)
    draws = mean_draws(known, NUM_DRAWS, 2 * seed + _GENERATED)
    value = float(known.mean())
    interval = interval_of(value, draws) if len(known) > 1 else _UNKNOWN
    return Measure(name, value, interval, len(known), draws=draws, **about)


@dataclass(frozen=True)
class Difference:
    """How much one run exceeds another in a measure, and how sure that is."""

    name: str
    value: float
    interval: Interval
    verdict: str
    """`better`, `worse`, or `cannot tell` if 0 lies within the interval."""

    def as_dict(self) -> dict[str, Any]:
        """Spell it in plain values."""
        low, high = map(finite, self.interval)
        return {"name": self.name, "value": finite(self.value), "low": low, "high": high, "verdict": self.verdict}


def compare(one: Measure, other: Measure) -> Difference:
    """Compare two runs by the interval of their difference: the reference is drawn for both at once."""
    value = one.value - other.value
    count = min(len(one.draws), len(other.draws))
    interval = interval_of(value, one.draws[:count] - other.draws[:count]) if count else _UNKNOWN
    verdict = "cannot tell"
    if interval.low > 0 or interval.high < 0:
        verdict = "better" if (interval.low > 0) == one.higher_is_better else "worse"
    return Difference(one.name, value, interval, verdict)
