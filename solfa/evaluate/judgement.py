"""`solfa.evaluate`: judge a set of clips by a reference.

sets of recordings ──► embeddings, in the cache ──► measures with intervals, floor and ceiling ──► `Evaluation`
                  └──► copies and their originals, faults of every clip ───────────────────────────┘
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from solfa.codecs.embedders.catalogue import DEFAULT_EMBEDDER, load_embedder
from solfa.codecs.embedders.protocol import Embedder
from solfa.config import nearest
from solfa.encoding.progress import Listener
from solfa.errors import ConfigError
from solfa.evaluate.clip_sets import Judged, of_dataset
from solfa.evaluate.embedding_cache import Crew, noise_set
from solfa.evaluate.evaluation import Evaluation
from solfa.evaluate.judged_set import METRICS, OFTEN, EvaluationTask, MetricName, OnClip, existing
from solfa.evaluate.measures import (
    compare,
)
from solfa.evaluate.perception import PACKAGES, expect_package
from solfa.store.dataset import Dataset


def evaluate(
    clips: Judged,
    reference: str | Path | Dataset,
    *,
    metrics: Sequence[str] | None = None,
    embedder: str | Path | Embedder = DEFAULT_EMBEDDER,
    against: Judged | None = None,
    num_clips: int = 64,
    seconds: float = 10.0,
    seed: int = 0,
    device: str = "auto",
    num_encoders: int | None = None,
    num_workers: int | None = None,
    trust_code: bool = False,
    listener: Listener | None = None,
    on_clip: OnClip | None = None,
) -> Evaluation:
    """Judge clips (a folder, a dataset, a model's signature, or clips in memory) by a reference of real recordings.

    `metrics` are `kad`, `fad`, `fad_infinity`, `kld`, `clap`, `si_sdr`, `mel`, `visqol`, `pesq`, `stoi` and `bits`;
    without any, those that apply and need no other packages. A dataset is decoded first; a model generates `num_clips`
    clips of `seconds`, with the captions of the reference if it takes texts. `against` is a second set, and
    the report says whether the first is better, by the interval of the difference. Embeddings are computed once and
    kept in the folder of SOLFA_CACHE_DIR.

    >>> import solfa
    >>> report = solfa.evaluate("music.solfa", reference="audio/", embedder="mel")
    >>> report["mel"].value < 20, report["mel"].num_recordings
    (True, 5)
    """
    wanted = _check_metrics(metrics)
    loaded = load_embedder(embedder, device="cpu") if isinstance(embedder, str | Path) else embedder
    task = EvaluationTask(
        wanted=wanted,
        is_asked=metrics is not None,
        embedder=loaded,
        spec=str(embedder) if isinstance(embedder, str | Path) else loaded,
        crew=Crew(device, num_encoders, num_workers, listener),
        draw={"num_clips": num_clips, "seconds": seconds, "seed": seed},
        seed=seed,
        trust_code=trust_code,
        on_clip=on_clip or (lambda what, done, total: None),
    )
    real = of_dataset(reference) if isinstance(reference, Dataset) else existing(reference, "reference")
    known = task.embed(real)
    noise = task.embed(noise_set(loaded)) if {"kad", "fad", "fad_infinity", "kld"} & {*wanted} else None
    report = task.judge(clips, real, known, noise)
    if against is None:
        return report
    other = task.judge(against, real, known, noise)
    theirs = {measure.name: measure for measure in other.measures}
    both = [(measure, theirs[measure.name]) for measure in report.measures if measure.name in theirs]
    return replace(report, against=other.name, differences=tuple(compare(*pair) for pair in both))


def _check_metrics(metrics: Sequence[str] | None) -> tuple[MetricName, ...]:
    if metrics is None:
        return OFTEN
    for name in metrics:
        if name not in METRICS:
            raise ConfigError(f"`metrics`: expected {', '.join(METRICS)}, found {name!r}{nearest(name, METRICS)}")
        if name in PACKAGES:
            expect_package(name)
    if not metrics:
        raise ConfigError("`metrics`: expected at least one, found none; leave it out for those that apply")
    return tuple(name for name in METRICS if name in metrics)
