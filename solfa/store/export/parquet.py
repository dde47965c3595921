"""Parquet files for engines that know nothing about Solfa (Ray Data, Daft, DuckDB, pandas): one row per clip.

`array` lists all values, frame by frame: reshape it to [num_frames, width]; the schema's metadata has `width`. float16
latents are written as float32, which represents them exactly: DuckDB and others do not read half floats.
"""

from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from solfa.files.digest import canonical_json
from solfa.store.export.clip_record import ExportedClip
from solfa.store.export.format_names import PartLimits, part_ranges
from solfa.store.export.job import ExportJob
from solfa.store.planned_clip import metadata_text
from solfa.store.schema import ArraySpec

_GROUP = PartLimits(max_clips=512, max_bytes=64 << 20)
"""When a row group is full; far below the limit of 2^31 values in an Arrow list."""


def write_parquet(job: ExportJob) -> None:
    """Write the files, each in row groups of up to 512 clips."""
    schema = parquet_schema(job)
    sizes = job.dataset.num_frames * job.spec.bytes_per_frame
    for number, indices in enumerate(job.parts()):

        def write(file: IO[bytes], indices: range = indices) -> None:
            with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                for group in part_ranges(sizes[indices.start : indices.stop], _GROUP):
                    clips = list(job.read(indices[group.start : group.stop]))
                    writer.write_table(pa.Table.from_batches([_batch(clips, schema)]))

        job.folder.build(f"clips-{number:05d}.parquet", write)


def item_dtype(spec: ArraySpec) -> np.dtype[np.generic]:
    """Choose the values' dtype in Parquet."""
    return np.dtype(np.float32) if spec.kind == "latents" else spec.numpy_dtype


def parquet_schema(job: ExportJob) -> pa.Schema:
    """Name the columns."""
    texts, numbers = ("key", "uri", "source_format"), ("size_bytes", "mtime_ns", "member_offset", "member_size")
    spans = ("start", "stop", "source_sample_rate", "source_num_channels", "source_num_samples")
    values = pa.list_(pa.field("item", pa.from_numpy_dtype(item_dtype(job.spec)), nullable=False))
    return pa.schema(
        [
            pa.field("index", pa.int64(), nullable=False),
            pa.field("id", pa.string(), nullable=False),
            pa.field("array", values, nullable=False),
            pa.field("num_frames", pa.int64(), nullable=False),
            pa.field("num_samples", pa.int64(), nullable=False),
            pa.field("seconds", pa.float64(), nullable=False),
            pa.field("caption", pa.string()),
            pa.field("metadata", pa.string(), nullable=False),  # a JSON object
            pa.field("scales", pa.list_(pa.float32())),
            pa.field("member", pa.string()),
            *(pa.field(name, pa.string(), nullable=False) for name in texts),
            *(pa.field(name, pa.int64(), nullable=False) for name in (*numbers, *spans)),
        ],
        metadata={"solfa": canonical_json(job.dataset.info.model_dump(mode="json"))},
    )


def _batch(group: list[ExportedClip], schema: pa.Schema) -> pa.RecordBatch:
    rows = [{**record.model_dump(mode="json"), "metadata": metadata_text(record.metadata)} for record, _ in group]
    sizes = np.array([array.size for _, array in group], np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    values_type = schema.field("array").type
    flat = np.concatenate([array.reshape(-1) for _, array in group]).astype(values_type.value_type.to_pandas_dtype())
    columns = {
        name: pa.array([row[name] for row in rows], schema.field(name).type) for name in schema.names if name != "array"
    }
    columns["array"] = pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat), type=values_type)
    return pa.record_batch([columns[name] for name in schema.names], schema=schema)
