"""The dataset format: arrays and clips in immutable files. Knows nothing about codecs."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.store.array_dataset import append_arrays
    from solfa.store.dataset import Dataset, open_dataset
    from solfa.store.export.dataset_export import ExportReport, export_dataset
    from solfa.store.export.format_names import ExportFormat, PartLimits
    from solfa.store.gc import collect_garbage, leftovers
    from solfa.store.layout import is_dataset
    from solfa.store.legacy.found_clips import ArrayLayout
    from solfa.store.planned_clip import PlannedClip
    from solfa.store.restoration import Repair
    from solfa.store.schema import ArraySpec, DatasetInfo
    from solfa.store.shard_reader import Clip, FailedClip
    from solfa.store.shard_writer import Outcome
    from solfa.store.status import Status, read_status
    from solfa.store.verification import Problem, Verification, verify
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.store.array_dataset": ["append_arrays"],
            "solfa.store.dataset": ["Dataset", "open_dataset"],
            "solfa.store.export.dataset_export": ["ExportReport", "export_dataset"],
            "solfa.store.export.format_names": ["ExportFormat", "PartLimits"],
            "solfa.store.gc": ["collect_garbage", "leftovers"],
            "solfa.store.layout": ["is_dataset"],
            "solfa.store.legacy.found_clips": ["ArrayLayout"],
            "solfa.store.planned_clip": ["PlannedClip"],
            "solfa.store.restoration": ["Repair"],
            "solfa.store.schema": ["ArraySpec", "DatasetInfo"],
            "solfa.store.shard_reader": ["Clip", "FailedClip"],
            "solfa.store.shard_writer": ["Outcome"],
            "solfa.store.status": ["Status", "read_status"],
            "solfa.store.verification": ["Problem", "Verification", "verify"],
        },
    )

__all__ = [
    "ArrayLayout",
    "ArraySpec",
    "Clip",
    "Dataset",
    "DatasetInfo",
    "ExportFormat",
    "ExportReport",
    "FailedClip",
    "Outcome",
    "PartLimits",
    "PlannedClip",
    "Problem",
    "Repair",
    "Status",
    "Verification",
    "append_arrays",
    "collect_garbage",
    "export_dataset",
    "is_dataset",
    "leftovers",
    "open_dataset",
    "read_status",
    "verify",
]
