"""Clips that a run generates, beside real ones, and who compares them.

Solvers do not know how sounds are judged: whoever builds the experiment brings a judge along.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from solfa.codecs.protocol import Codec, StoredClip
from solfa.data.sources.stage_source import OpenedSource
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.solvers.config import EvaluateConfig

NUM_CLIPS, SECONDS = 32, 10.0


class ClipPairs(NamedTuple):
    """Generated clips, and the real ones that they were asked to be like, in one order."""

    generated: Sequence[GeneratedClip]
    real: Sequence[GeneratedClip]


class ArrayOfClip(NamedTuple):
    """A clip that is not in a dataset, as codecs decode it."""

    array: NDArray[Any]
    num_samples: int
    scales: NDArray[Any] | None


class Judge(Protocol):
    """Measures generated clips; real clips that are the same object as before need not be heard again."""

    def expect_ready(self, config: EvaluateConfig) -> None:
        """Refuse, before anything is trained, what cannot be measured."""
        ...

    def __call__(self, pairs: ClipPairs, config: EvaluateConfig, seed: int) -> Mapping[str, float]: ...


def judged_size(config: EvaluateConfig) -> tuple[int, float]:
    """Return how many clips are judged, and how long they are."""
    return config.num_clips or NUM_CLIPS, config.seconds or SECONDS


def expect_judged(config: EvaluateConfig, judge: Judge | None, source: OpenedSource | None) -> None:
    """Refuse `evaluate.metrics` that could not be measured when their time comes, which may be hours away."""
    if not {*(config.metrics or ())} - {"bits"}:
        return
    if judge is None:
        raise ConfigError("evaluate.metrics: the experiment has no judge; build it with one, or leave it out")
    found = 0 if source is None else len(source)
    if min(found, judged_size(config)[0]) < 2:
        raise ConfigError(
            f"evaluate.metrics: expected at least 2 clips in the evaluate dataset to compare with, found {found}; hold "
            "out more, or leave it out"
        )
    judge.expect_ready(config)


def real_clips(source: OpenedSource, codec: Codec, config: EvaluateConfig) -> list[GeneratedClip]:
    """Decode the first clips of a dataset: what the best model of it would generate."""
    num_clips, seconds = judged_size(config)
    length = round(seconds * codec.sample_rate)
    clips = []
    for index in range(min(num_clips, len(source))):
        clip = source[index]
        whole = len(clip.array) * codec.hop_length
        stored = clip if isinstance(clip, StoredClip) else ArrayOfClip(clip.array, whole, None)
        audio = codec.decode(stored)[:, :length].float().cpu()
        clips.append(GeneratedClip(f"{index:03d}", audio, codec.sample_rate))
    return clips
