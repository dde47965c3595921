"""What a plan says about its recordings: which the codec cannot take as they are, and which sidecars are broken."""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc

from solfa.audio.sources.metadata import SIDECAR_ERROR
from solfa.files.stores.place import Place
from solfa.store.column_numbers import numbers_of
from solfa.store.plan_file import iterate_plan_batches
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


_NUMBERS = ["start", "stop", "num_samples", "source_sample_rate", "source_num_channels"]
_COLUMNS = ["key", *_NUMBERS, "metadata"]


def summarize_source(root: Place, array: ArraySpec) -> SourceSummary:
    """Go through the plan of a dataset, some rows at a time."""
    summary = SourceSummary()
    for rows in iterate_plan_batches(root, _COLUMNS):
        start, stop, length, rate, channels = (numbers_of(rows.column(name)) for name in _NUMBERS)
        samples = np.where(rate != 0, channels * (stop - start), array.num_channels * length)
        summary.pcm_bytes += 2 * int(samples.sum())
        is_first = start == 0  # a recording is counted with its first clip
        # Imported clips do not know what they were made from, and neither do those that cannot be read.
        others = rate[is_first & (rate != 0) & (rate != array.sample_rate)]
        summary.resampled.update(others.tolist())
        summary.mixed_down += int((is_first & (channels > array.num_channels)).sum())
        suspects = rows.filter(pc.match_substring(rows.column("metadata"), SIDECAR_ERROR)).to_pylist()
        for row in suspects:
            if row["start"] == 0 and (fault := json.loads(row["metadata"]).get(SIDECAR_ERROR)):
                summary.sidecar_faults.append(SidecarFault(row["key"], str(fault)))
    return summary
