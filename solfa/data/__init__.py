"""From a dataset to training batches: deterministic, resumable, and independent of the number of workers and ranks."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.data.batching.collation import Batch
    from solfa.data.batching.loader import BatchDataset, GlobalBatchSampler, Loader, make_loader
    from solfa.data.batching.modes import Crop, Pack, Pad
    from solfa.data.batching.stage_batches import Batching, StageBatching, make_stage_loader
    from solfa.data.copies.copy_search import Copy, CopyFinder, CopyPair, find_copies
    from solfa.data.copies.duplicate_clusters import Duplicates, find_duplicates
    from solfa.data.sources.clip_source import ClipSource, MemoryClip, MemoryClips, SourceClip
    from solfa.data.sources.dset import Dset, Source
    from solfa.data.sources.hold_out import HoldOut
    from solfa.data.sources.stage_source import OpenedSource, open_sources, open_stage
    from solfa.data.table.clip_table import ClipTable
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.data.batching.collation": ["Batch"],
            "solfa.data.batching.loader": ["BatchDataset", "GlobalBatchSampler", "Loader", "make_loader"],
            "solfa.data.batching.modes": ["Crop", "Pack", "Pad"],
            "solfa.data.batching.stage_batches": ["Batching", "StageBatching", "make_stage_loader"],
            "solfa.data.copies.copy_search": ["Copy", "CopyFinder", "CopyPair", "find_copies"],
            "solfa.data.copies.duplicate_clusters": ["Duplicates", "find_duplicates"],
            "solfa.data.sources.clip_source": ["ClipSource", "MemoryClip", "MemoryClips", "SourceClip"],
            "solfa.data.sources.dset": ["Dset", "Source"],
            "solfa.data.sources.hold_out": ["HoldOut"],
            "solfa.data.sources.stage_source": ["OpenedSource", "open_sources", "open_stage"],
            "solfa.data.table.clip_table": ["ClipTable"],
        },
    )

__all__ = [
    "Batch",
    "BatchDataset",
    "Batching",
    "ClipSource",
    "ClipTable",
    "Copy",
    "CopyFinder",
    "CopyPair",
    "Crop",
    "Dset",
    "Duplicates",
    "GlobalBatchSampler",
    "HoldOut",
    "Loader",
    "MemoryClip",
    "MemoryClips",
    "OpenedSource",
    "Pack",
    "Pad",
    "Source",
    "SourceClip",
    "StageBatching",
    "find_copies",
    "find_duplicates",
    "make_loader",
    "make_stage_loader",
    "open_sources",
    "open_stage",
]
