"""What a plan says about its recordings: which the codec cannot take as they are, and which sidecars are broken."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from solfa.audio.sources.metadata import SIDECAR_ERROR
from solfa.files.stores.place import Place
from solfa.store.plan_file import iterate_plan_columns
from solfa.store.schema import ArraySpec


class SidecarFault(NamedTuple):
    """A file beside a recording that could not be used."""

    key: str
    """The recording, which was encoded all the same."""
    fault: str


@dataclass
class SourceSummary:
    """Counts over the recordings of a plan that can be read."""

    pcm_bytes: int = 0
    """The size of their audio as 16-bit PCM, at their own rates and channels, or at the codec's where these are not
    known: of imported clips."""
    resampled: Counter[int] = field(default_factory=Counter)
    """Recordings at another sample rate than the codec's, by their rate."""
    mixed_down: int = 0
    """Recordings with more channels than the codec has."""
    sidecar_faults: list[SidecarFault] = field(default_factory=list)


_COLUMNS = ["key", "start", "stop", "num_samples", "source_sample_rate", "source_num_channels", "metadata"]


def summarize_source(root: Place, array: ArraySpec) -> SourceSummary:
    """Go through the plan of a dataset, one shard at a time."""
    summary = SourceSummary()
    for shard in iterate_plan_columns(root, _COLUMNS):
        for key, start, stop, length, rate, channels, metadata in zip(*(shard[name] for name in _COLUMNS), strict=True):
            summary.pcm_bytes += 2 * (channels * (stop - start) if rate else array.num_channels * length)
            if start != 0:  # counted with the first clip of its recording
                continue
            # Imported clips do not know what they were made from, and neither do those that cannot be read.
            if rate not in (0, array.sample_rate):
                summary.resampled[rate] += 1
            summary.mixed_down += channels > array.num_channels
            if SIDECAR_ERROR in metadata and (fault := json.loads(metadata).get(SIDECAR_ERROR)):
                summary.sidecar_faults.append(SidecarFault(key, str(fault)))
    return summary
