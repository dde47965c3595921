"""The judge of a run: compares generated clips with real ones in memory, as `solfa.evaluate` compares folders."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, final

import numpy as np
import torch

from solfa.audio.channels import to_channels
from solfa.audio.resampler import resample_span
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.solvers.config import EvaluateConfig
from solfa.solvers.judge import ClipPairs

# What judges is imported when somebody asks it: a run begins sooner without it.
if TYPE_CHECKING:
    from solfa.codecs.embedders.protocol import Embedder
    from solfa.evaluate.embedding_cache import EmbeddedSet
    from solfa.evaluate.measures import Measure


@final
class ClipJudge:
    """Loads its embedder on first use, and remembers the real clips that it heard last."""

    def __init__(self) -> None:
        self._embedder: Embedder | None = None
        self._real: tuple[Sequence[GeneratedClip], EmbeddedSet] | None = None

    def expect_ready(self, config: EvaluateConfig) -> None:
        """Load the embedder, and refuse a divergence of tags without a tagger."""
        embedder = self._loaded(config)
        if "kld" in (config.metrics or ()) and not embedder.tags:
            raise ConfigError(
                f"evaluate.metrics: kld needs an embedder that is a tagger, found {embedder.name}; set "
                "evaluate.embedder=musicnn, or leave kld out"
            )

    def __call__(self, pairs: ClipPairs, config: EvaluateConfig, seed: int) -> Mapping[str, float]:
        """Measure what the config asks for, each with its interval and, for distances, its floor."""
        from solfa.evaluate.measures import measure_fad, measure_kad, measure_kld

        embedder = self._loaded(config)
        if self._real is None or self._real[0] is not pairs.real:
            self._real = pairs.real, embed_clips(pairs.real, embedder)
        real, generated = self._real[1], embed_clips(pairs.generated, embedder)
        rows = list(range(min(len(real), len(generated))))
        measure: dict[str, Callable[[], Measure]] = {
            "kad": lambda: measure_kad(real, generated, None, seed)[0],
            "fad": lambda: measure_fad(real, generated, None, seed),
            "kld": lambda: measure_kld(real.select(rows), generated.select(rows), None, seed)[0],
        }
        wanted = [name for name in config.metrics or () if name in measure]
        return {name: number for metric in wanted for name, number in _numbers(measure[metric]()).items()}

    def _loaded(self, config: EvaluateConfig) -> "Embedder":
        from solfa.codecs.embedders.catalogue import DEFAULT_EMBEDDER, load_embedder

        if self._embedder is None:
            self._embedder = load_embedder(config.embedder or DEFAULT_EMBEDDER)
        return self._embedder


def embed_clips(clips: Sequence[GeneratedClip], embedder: "Embedder") -> "EmbeddedSet":
    """Embed clips in memory, in their order."""
    from solfa.evaluate.embedding_cache import EmbeddedSet

    rows = [_embed(clip, embedder) for clip in clips]
    joined = np.concatenate(rows).astype(np.float64)
    names = tuple(clip.name for clip in clips)
    return EmbeddedSet(
        names,
        names,
        joined[:, : embedder.width],
        np.repeat(np.arange(len(rows)), [len(row) for row in rows]),
        joined[:, embedder.width :],
        (),
        sum(clip.samples().shape[1] / clip.sample_rate for clip in clips),
    )


def _embed(clip: GeneratedClip, embedder: "Embedder") -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    # What a model draws before it has learned anything may not be finite, and is judged as silence.
    mono = to_channels(np.nan_to_num(clip.samples(), posinf=1.0, neginf=-1.0), 1)
    audio = resample_span(mono, 0, 0, mono.shape[1], clip.sample_rate, embedder.sample_rate)
    found = embedder.embed(torch.from_numpy(np.ascontiguousarray(audio)))[0].float().cpu().numpy()
    return np.asarray(np.nan_to_num(found), np.float32)


def _numbers(measure: "Measure") -> dict[str, float]:
    """Spell a measure as metrics of a stage, without what is not known."""
    named = {
        measure.name: measure.value,
        f"{measure.name}_low": measure.interval.low,
        f"{measure.name}_high": measure.interval.high,
        f"{measure.name}_floor": measure.floor,
    }
    return {name: float(value) for name, value in named.items() if value is not None and np.isfinite(value)}
