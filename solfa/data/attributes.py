"""What a model is told about each clip of a batch, and what is dropped in training.

A draw belongs to a clip, an epoch and an attribute, never to a rank or worker: whoever reads a clip drops the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from solfa.data.stable_random import stable_key
from solfa.errors import ConfigError

CAPTION = "caption"
"""The source that means a clip's caption; every other source is a metadata column."""


def attribute_rows(
    captions: Sequence[str | None], metadata: Sequence[Mapping[str, Any]], sources: Mapping[str, str]
) -> list[dict[str, Any | None]]:
    """Collect the attributes of each clip by name; None if a clip has no value."""
    return [
        {name: caption if source == CAPTION else columns.get(source) for name, source in sources.items()}
        for caption, columns in zip(captions, metadata, strict=True)
    ]


def drop_attributes(
    rows: Sequence[Mapping[str, Any | None]],
    ids: Sequence[str],
    *,
    guidance_dropout: float,
    dropouts: Mapping[str, float],
    seed: int,
    epoch: int,
) -> list[dict[str, Any | None]]:
    """Drop attributes: all of a clip's together with one probability, and each separately with another."""
    unknown = set(dropouts) - {name for row in rows for name in row}
    if rows and unknown:
        raise ConfigError(f"dropout: no clip has an attribute named {' or '.join(sorted(unknown))}")

    def dropped(clip_id: str, name: str) -> bool:
        return _happens(dropouts.get(name, 0.0), "attribute", seed, epoch, clip_id, name)

    return [
        dict.fromkeys(row)
        if _happens(guidance_dropout, "guidance", seed, epoch, clip_id)
        else {name: None if dropped(clip_id, name) else value for name, value in row.items()}
        for row, clip_id in zip(rows, ids, strict=True)
    ]


def draw_hidden(ids: Sequence[str], num_frames: int, *, share: float, seed: int, epoch: int) -> list[int]:
    """Draw how many frames of each clip are hidden, from the first one on: 0 for most, else up to all of them."""
    return [
        1 + stable_key("hidden", seed, epoch, clip_id) % num_frames
        if num_frames and _happens(share, "history", seed, epoch, clip_id)
        else 0
        for clip_id in ids
    ]


def _happens(probability: float, *parts: str | int) -> bool:
    """Draw whether something with a probability happens; 0 is never and 1 is always."""
    # 53 bits, as many as a float holds: more could round up to 1, and a probability of 1 would not always happen.
    return probability > 0 and (stable_key("dropout", *parts) >> 75) / 2**53 < probability
