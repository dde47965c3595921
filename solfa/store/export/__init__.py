"""Write a dataset in the layouts that other tools read: `export_dataset`."""

from solfa.store.export.exporting import ExportReport, export_dataset
from solfa.store.export.formats import ExportFormat, PartLimits

__all__ = ["ExportFormat", "ExportReport", "PartLimits", "export_dataset"]
