"""Export a dataset: claim the folder, let the format write its files, mark it complete."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from solfa.errors import ConfigError
from solfa.store.dataset import Dataset
from solfa.store.export.clip_record import failed_records, json_line
from solfa.store.export.format_names import ExportFormat, PartLimits
from solfa.store.export.job import ExportJob
from solfa.store.export.marker import FAILURES, Marker
from solfa.store.export.musiccaps import write_musiccaps
from solfa.store.export.npy_folder import write_npy
from solfa.store.export.out_folder import claim
from solfa.store.export.parquet import write_parquet
from solfa.store.export.plan_rows import PlanRows
from solfa.store.export.stable_audio import write_stable_audio
from solfa.store.export.webdataset import write_webdataset

_WRITERS: Mapping[ExportFormat, Callable[[ExportJob], None]] = {
    ExportFormat.STABLE_AUDIO: write_stable_audio,
    ExportFormat.MUSICCAPS: write_musiccaps,
    ExportFormat.NPY: write_npy,
    ExportFormat.WEBDATASET: write_webdataset,
    ExportFormat.PARQUET: write_parquet,
}


class ExportReport(NamedTuple):
    """What an export wrote, or found already written."""

    path: Path
    format: ExportFormat
    num_clips: int
    num_failed: int
    """Clips without an array; the export lists them, so that importing it restores them."""
    num_files: int
    num_bytes: int
    notes: tuple[str, ...]
    """Things that a reader of the format may miss."""


def export_dataset(
    dataset: Dataset,
    out: str | Path,
    format: ExportFormat,
    on_clip: Callable[[int, int], None] = lambda done, total: None,
    *,
    silence: np.ndarray[Any, Any] | None = None,
    details: Mapping[str, Any] | None = None,
    limits: PartLimits | None = None,
    pad_frames: int = 0,
) -> ExportReport:
    """Write a dataset into a new or empty folder; if killed half-way, repeat the call to finish.

    `silence` ([T, W], encoded silence), `details` (keys of details.json) and `pad_frames` (fill up shorter clips with
    silence to this many frames) belong to stable-audio, `limits` to webdataset and parquet.

    >>> import solfa
    >>> from solfa.store import ExportFormat, export_dataset
    >>> export_dataset(solfa.open_dataset("music.solfa"), "arrays/", ExportFormat.NPY).num_clips
    7
    """
    out = Path(out)
    limits = limits or PartLimits()
    if silence is not None and (silence.ndim != 2 or silence.shape[1] != dataset.info.array.width):
        raise ConfigError(f"silence: expected an array [T, {dataset.info.array.width}], found {list(silence.shape)}")
    if format is not ExportFormat.STABLE_AUDIO and (silence is not None or details or pad_frames):
        raise ConfigError(f"silence, details, pad_frames: the format {format} has no place for them; leave them out")
    if pad_frames > (0 if silence is None else len(silence)):
        found = "none" if silence is None else f"{len(silence)} frames"
        raise ConfigError(f"pad_frames: expected at least {pad_frames} frames of encoded `silence`, found {found}")
    marker = Marker(
        format=format,
        dataset_digest=dataset.digest,
        limits=limits,
        pad_frames=pad_frames,
        num_clips=len(dataset),
        num_failed=dataset.num_failed,
        complete=False,
        dataset=dataset.info,
    )
    plan = PlanRows(dataset.path)
    folder = claim(out, marker, dataset.path)
    job = ExportJob(dataset, plan, folder, limits, on_clip, silence, details or {}, pad_frames)
    _WRITERS[format](job)
    if dataset.num_failed:
        folder.put(FAILURES, b"".join(json_line(record) for record in failed_records(dataset)))
    folder.complete(marker)
    return ExportReport(
        out, format, len(dataset), dataset.num_failed, folder.num_files, folder.num_bytes, tuple(job.notes)
    )
