"""The data of the stages, and batches of it: without an end for training, from the start for everything else."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from solfa.data.sources.dset import Dset, Stage
from solfa.data.sources.stage_source import OpenedSource, open_stage
from solfa.errors import ConfigError
from solfa.solvers.state.registry import Stateful

logger = logging.getLogger(__name__)


def open_stages(dset: Dset) -> dict[Stage, OpenedSource]:
    """Open the clips of every stage, and refuse stages whose arrays do not fit each other."""
    stages: tuple[Stage, ...] = ("train", "valid", "evaluate", "generate")
    sources = {stage: open_stage(dset, stage) for stage in stages}
    for stage, source in sources.items():
        if source.array != sources["train"].array:
            raise ConfigError(
                f"dset.{stage}: its arrays are {source.array}, and those of train {sources['train'].array}; "
                "encode all stages with the same codec"
            )
    return sources


def data_facts(sources: dict[Stage, OpenedSource]) -> dict[str, Any]:
    """Say what a model must know of its data, and what its card says of them."""
    train = sources["train"]
    return {
        "array": train.array.model_dump(mode="json"),
        "codec": train.codec,
        "fingerprint": train.fingerprint,
        "digest": train.digest,
        "clips": len(train),
        "seconds": float(train.num_frames.sum()) / train.array.frame_rate,
        "licences": _licences(train),
    }


def _licences(source: OpenedSource) -> dict[str, int]:
    """Count the clips of each licence, as a column of that name says; without one nothing is known."""
    named = [name for name in ("licence", "license") if name in source.column_names()]
    found = Counter(str(value) for value in (source.values(named[0]) if named else ()) if value)
    return dict(sorted(found.items()))


@contextmanager
def endless(loader: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """Go on with the loader where it is, again and again; leaving the context ends its worker processes."""
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
            raise ConfigError("the train loader has no batch; add clips, or make batches smaller")


@contextmanager
def from_the_start(loader: Any) -> Iterator[Iterator[Any]]:
    """Iterate over one epoch, the same one every time for a loader that knows its position."""
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
    """Describe where a loader is; None for one that cannot say."""
    return loader.state_dict() if isinstance(loader, Stateful) else None


def go_to(loader: Any, position: dict[str, Any] | None) -> None:
    """Bring a loader to where it was; one that cannot go there begins anew, and the log says so."""
    if position is not None and isinstance(loader, Stateful):
        loader.load_state_dict(position)
    else:
        logger.warning("the train loader keeps no position: it starts over, so batches differ from an unbroken run")
