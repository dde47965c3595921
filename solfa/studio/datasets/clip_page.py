"""The facts on the page of a clip."""

import json
from typing import Any

from solfa.spelling import channels, count, duration, khz
from solfa.store.dataset import Dataset
from solfa.store.shard_reader import Clip
from solfa.studio.datasets.clip_sounds import BEGINNING_SECONDS


def heard_seconds(clip: Clip, *, whole: bool) -> float:
    """Say how much of a clip is decoded: of a long one only its beginning, unless all of it is asked for."""
    is_cut = not whole and clip.scales is None
    return min(clip.seconds, BEGINNING_SECONDS) if is_cut else clip.seconds


def neighbours(dataset: Dataset, clip_id: str) -> tuple[str | None, str | None]:
    """Return the ids of the clips before and after one."""
    index = dataset.index_of(clip_id)
    before = dataset[index - 1].id if index > 0 else None
    return before, dataset[index + 1].id if index + 1 < len(dataset) else None


def clip_facts(clip: Clip) -> list[tuple[str, str]]:
    """List the metadata of a clip, and where it came from."""
    source = clip.source
    facts = [(str(name), _text(value)) for name, value in clip.metadata.items()]
    facts.append(("recording", source["key"]))
    if source["sample_rate"]:
        form = f"{source['format']}, {khz(source['sample_rate'])}, {channels(source['num_channels'])}"
        length = duration(source["num_samples"] / source["sample_rate"])
        part = f"{source['start'] / source['sample_rate']:.2f} to {source['stop'] / source['sample_rate']:.2f} s"
        facts += [
            ("its form", f"{form}, {length}"),
            ("part of it", f"{part} ({count(source['stop'] - source['start'])} samples)"),
        ]
    if source["member"] is not None:
        facts.append(("in the archive", source["member"]))
    return facts


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
