"""What every format's writer gets: the clips to write, the folder to fill, and a progress callback."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from solfa.store.dataset import Dataset
from solfa.store.export.clip_record import ExportedClip, exported_clips
from solfa.store.export.format_names import PartLimits, part_ranges
from solfa.store.export.out_folder import OutFolder
from solfa.store.export.plan_rows import PlanRows
from solfa.store.schema import ArraySpec


@dataclass(frozen=True)
class ExportJob:
    """One export in progress."""

    dataset: Dataset
    plan: PlanRows
    folder: OutFolder
    limits: PartLimits
    on_clip: Callable[[int, int], None]
    silence: np.ndarray[Any, Any] | None
    """Encoded silence, [T, W]."""
    details: Mapping[str, Any]
    pad_frames: int = 0
    """Shorter clips are filled up with silence to this many frames."""
    notes: list[str] = field(default_factory=list)

    @property
    def spec(self) -> ArraySpec:
        """What the arrays look like."""
        return self.dataset.info.array

    def clips(self) -> Iterator[ExportedClip]:
        """Iterate over all clips, reporting how many are done."""
        for done, clip in enumerate(exported_clips(self.dataset, self.plan, range(len(self.dataset))), 1):
            yield clip
            self.on_clip(done, len(self.dataset))

    def parts(self) -> Iterator[range]:
        """Cut the clips into files, reporting after each how many are done."""
        sizes = self.dataset.num_frames * self.spec.bytes_per_frame
        for indices in part_ranges(sizes, self.limits):
            yield indices
            self.on_clip(indices.stop, len(self.dataset))

    def read(self, indices: range) -> Iterator[ExportedClip]:
        """Read the clips of one part."""
        return exported_clips(self.dataset, self.plan, indices)


def legacy_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Turn [T, W] into the [W, T] of older layouts; codes become int64.

    Older scripts add offsets to codes and use them as indices, which overflows in uint16 and fails in torch.
    """
    transposed = array.T
    return transposed.astype(np.int64) if transposed.dtype.kind == "u" else transposed
