"""The layout of stable-audio-tools' `pre_encode.py`, for its own readers and stable-audio-3's.

OUT/details.json              how it was made
OUT/0/<RRR><BBBBBB><IIII>.npy [W, T]; rank, batch and item as 3 + 6 + 4 digits
OUT/0/<same>.json             seconds, padding mask, prompt, metadata; `solfa` holds what the layout has no place for
OUT/silence.npy               [1, W, T], used by newer readers to fill up short clips
OUT/filelist.txt              the arrays: without it, readers take every .npy for a clip, silence.npy too
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from solfa.store.export.clip_record import ClipRecord, json_bytes
from solfa.store.export.job import ExportJob, legacy_array
from solfa.store.export.npy_bytes import npy_bytes
from solfa.store.schema import ArraySpec

FILE_LIST = "filelist.txt"


def write_stable_audio(job: ExportJob) -> None:
    """Write the layout, one pair of files per clip."""
    job.folder.put("details.json", json_bytes(_details(job)))
    if job.silence is None:
        job.notes.append("silence.npy is missing: writing it takes the codec; readers that fill up short clips need it")
    else:
        job.folder.put("silence.npy", npy_bytes(legacy_array(job.silence)[None]))
    for record, array in job.clips():
        name = item_name(record.index)
        padded = _padded(array, job.pad_frames, job.silence)
        item = item_json(record, job.spec)
        item["padding_mask"] += [0] * (len(padded) - len(array))
        job.folder.put(f"{name}.npy", npy_bytes(legacy_array(padded)))
        job.folder.put(f"{name}.json", json_bytes(item))
    job.folder.put(FILE_LIST, file_list(item_name(index) for index in range(len(job.dataset))))
    if job.pad_frames:
        job.notes.append(
            f'clips have at least {job.pad_frames} frames: readers stack them with "latent_crop_length": '
            f"{job.pad_frames} or less in the dataset config"
        )


def file_list(items: Iterable[str]) -> bytes:
    """List the arrays of items (`<rank>/<id>`), one per line."""
    return "".join(f"{item}.npy\n" for item in items).encode()


def _padded(array: np.ndarray[Any, Any], num_frames: int, silence: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """Fill up `[T, W]` with the frames that silence has in these places, as if the audio had been padded."""
    if len(array) >= num_frames:
        return array
    assert silence is not None and len(silence) >= num_frames
    return np.concatenate([array, silence[len(array) : num_frames].astype(array.dtype)])


def item_name(index: int) -> str:
    """Name a clip the way rank 0 would, in batches of 10,000."""
    return f"0/{index:013d}"


def item_json(record: ClipRecord, spec: ArraySpec) -> dict[str, Any]:
    """Describe a clip with the keys that older readers know; times are in seconds from the recording's start."""
    rate, total = record.source_sample_rate, record.source_num_samples
    known = rate > 0 and total > 0
    start = record.start / rate if known else 0.0
    stop = record.stop / rate if known else record.seconds
    whole = total / rate if known else record.seconds
    fixed = {
        "path": record.uri,
        "relpath": record.key,
        "timestamps": [start / whole, stop / whole] if whole > 0 else [0.0, 1.0],
        "seconds_start": math.floor(start),
        "seconds_total": math.ceil(whole),
        "padding_mask": [1] * record.num_frames,
        "sample_rate": spec.sample_rate,
        "audio_channels": spec.num_channels,
        "duration": record.seconds,
        "start_time": start,
        "end_time": stop,
    }
    # A prompt in the metadata takes precedence over a caption found elsewhere.
    prompt = {} if record.caption is None or record.metadata.get("prompt") is not None else {"prompt": record.caption}
    # A `path` or `duration` in the metadata must not replace the layout's; `solfa` keeps all of it as it was.
    return {**record.metadata, **prompt, **fixed, "solfa": record.model_dump(mode="json")}


def _details(job: ExportJob) -> dict[str, Any]:
    spec, info = job.spec, job.dataset.info
    frames = int(np.max(job.dataset.num_frames, initial=job.pad_frames))
    model = {"latent_dim": spec.width, "downsampling_ratio": spec.hop_length, "io_channels": spec.num_channels}
    own = {
        "model_config": {
            "model_type": "autoencoder",
            "sample_rate": spec.sample_rate,
            "audio_channels": spec.num_channels,
            "model": model,
        },
        "dataset_config": {},
        "sample_size": frames * spec.hop_length,
        "args": {},
        "solfa": {"codec": info.codec, "fingerprint": info.fingerprint},
    }
    return {**own, **job.details}
