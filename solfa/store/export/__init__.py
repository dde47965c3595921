"""Write a dataset in the layouts that other tools read: `export_dataset`."""

from solfa.store.export.dataset_export import ExportReport, export_dataset
from solfa.store.export.format_names import ExportFormat, PartLimits

__all__ = ["ExportFormat", "ExportReport", "PartLimits", "export_dataset"]
