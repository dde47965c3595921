"""The file that says which dataset a folder is an export of: written first, completed last, read by `solfa import`."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from solfa.config import Config, parse_config
from solfa.errors import ConfigError, StoreError
from solfa.files.json_objects import parse_object
from solfa.store.export.format_names import ExportFormat, PartLimits
from solfa.store.schema import DatasetInfo

MARKER = "_solfa_export.json"
"""The underscore makes readers of Parquet folders skip it."""

FAILURES = "_solfa_failures.jsonl"
"""Clips that have no array, one record per line."""


class Marker(Config):
    """What was exported, how, and whether it is complete."""

    export_version: Literal[1] = 1
    format: ExportFormat
    dataset_digest: str
    limits: PartLimits
    pad_frames: int = Field(default=0, ge=0)
    """Arrays of shorter clips were filled up to this many frames."""
    num_clips: int = Field(ge=0)
    num_failed: int = Field(ge=0)
    complete: bool
    dataset: DatasetInfo


def is_export(folder: Path) -> bool:
    """Say whether `folder` is an export, finished or not."""
    return (folder / MARKER).is_file()


def read_marker(folder: Path) -> Marker:
    """Read the marker of an exported folder."""
    path = folder / MARKER
    try:
        return parse_config(Marker, parse_object(path.read_bytes()), str(path))
    except ConfigError as error:
        raise StoreError(f"{error}; it is damaged, or from another version") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: cannot be read ({error}); export the dataset again into a new folder") from None
