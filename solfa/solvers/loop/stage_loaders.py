"""Data and batches for each stage: endless for training, one pass from the start for everything else."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from solfa.data.batching.stage_batches import Batching
from solfa.data.sources.dset import Dset, Stage
from solfa.data.sources.stage_source import OpenedSource, open_stage
from solfa.errors import ConfigError
from solfa.solvers.state.registry import Stateful

logger = logging.getLogger(__name__)


def open_stages(dset: Dset, batching: Batching) -> dict[Stage, OpenedSource]:
    """Open the clips of every stage, and refuse stages whose arrays differ."""
    stages: tuple[Stage, ...] = ("train", "valid", "evaluate", "generate")
    sources = {stage: open_stage(dset, stage, batching.of(stage).num_samples, batching.verify) for stage in stages}
    for stage, source in sources.items():
        if source.array != sources["train"].array:
            raise ConfigError(
                f"dset.{stage}: its arrays are {source.array}, but those of train are {sources['train'].array}; "
                "encode all stages with the same codec"
            )
    return sources


def data_facts(sources: dict[Stage, OpenedSource]) -> dict[str, Any]:
    """Collect what a model needs to know about its data, and what its card says about it."""
    train = sources["train"]
    return {
        "array": train.array.model_dump(mode="json"),
        "codec": train.codec,
        "codec_fingerprint": train.codec_fingerprint,
        "fingerprint": train.fingerprint,
        "digest": train.digest,
        "clips": len(train),
        "seconds": float(train.num_frames.sum()) / train.array.frame_rate,
        "licences": _licences(train),
    }


def _licences(source: OpenedSource) -> dict[str, int]:
    """Count the clips per licence, if the metadata has such a column."""
    named = [name for name in ("licence", "license") if name in source.column_names()]
    found = Counter(str(value) for value in (source.values(named[0]) if named else ()) if value)
    return dict(sorted(found.items()))


@contextmanager
def endless(loader: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """Iterate over the loader endlessly from where it is; leaving the context ends its worker processes."""
    batches = _again(loader)
    try:
        yield batches
    finally:
        batches.close()


def _again(loader: Iterable[Any]) -> Any:
    while True:
        empty = True
        for batch in loader:
            empty = False
            yield batch
        if empty:
            raise ConfigError("the train loader has no batches; add clips, or make batches smaller")


@contextmanager
def from_the_start(loader: Any) -> Iterator[Iterator[Any]]:
    """Iterate over one epoch; it is the same every time if the loader knows its position."""
    position = position_of(loader)
    batches = iter(loader)
    try:
        yield batches
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()
        if position is not None:
            loader.load_state_dict(position)


def position_of(loader: Any) -> dict[str, Any] | None:
    """Return a loader's position; None if it does not keep one."""
    return loader.state_dict() if isinstance(loader, Stateful) else None


def go_to(loader: Any, position: dict[str, Any] | None) -> None:
    """Move a loader to a saved position; if it cannot, it starts over and the log says so."""
    if position is not None and isinstance(loader, Stateful):
        loader.load_state_dict(position)
    else:
        logger.warning(
            "the train loader cannot resume at a position: it starts over, so batches differ from an uninterrupted run"
        )
