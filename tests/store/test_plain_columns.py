"""Columns and tables are those that Arrow itself makes, and pandas is not asked for."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from solfa.store.plain_columns import batch_of_rows, column, list_column, number_column, table_of_rows

COLUMNS = [
    (pa.string(), ["a", "", "日本", "x" * 40]),
    (pa.string(), [None, "b", None]),
    (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    (pa.int64(), [None, 5, *range(20), None]),
    (pa.int32(), [-(2**31), 2**31 - 1]),
    (pa.uint32(), [0, None, 2**32 - 1]),
    (pa.float64(), [0.1, None, 1e300]),
    (pa.list_(pa.float32()), [None, [], [0.5, 1.5], None, [2.5]]),
]


@pytest.mark.parametrize(("kind", "values"), COLUMNS)
def test_a_column_is_the_one_that_arrow_makes(kind, values):
    for some in (values, values[:1], [], [None, None]):
        made, expected = column(some, kind), pa.array(some, kind)
        made.validate(full=True)
        assert made.equals(expected) and made.null_count == expected.null_count
        assert (made.buffers()[0] is None) == (expected.buffers()[0] is None)


@pytest.mark.parametrize("kind", ["uint16", "uint32", "int32", "int64", "float16", "float32"])
def test_numbers_of_numpy_become_a_column(kind):
    for numbers in (np.arange(7).astype(kind), np.arange(9).astype(kind)[::2], np.zeros(0, kind)):
        assert number_column(numbers).equals(pa.array(numbers))
    offsets, items = np.array([0, 2, 2, 5], np.int32), np.arange(5).astype(kind)
    made = list_column(offsets, items, pa.list_(pa.from_numpy_dtype(items.dtype)))
    assert made.to_pylist() == [items[:2].tolist(), [], items[2:].tolist()]


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.int32(), 2**31), (pa.uint32(), -1), (pa.int64(), 1.5), (pa.string(), "\ud800")]
)
def test_what_does_not_fit_is_refused(kind, value):
    with pytest.raises((OverflowError, TypeError, UnicodeEncodeError)):
        column([value], kind)


def test_rows_become_a_table():
    schema = pa.schema([pa.field(str(place), kind) for place, (kind, _) in enumerate(COLUMNS)])
    rows = [{str(place): values[row % len(values)] for place, (_, values) in enumerate(COLUMNS)} for row in range(30)]
    for some in (rows, rows[:1], []):
        assert batch_of_rows(some, schema).equals(pa.RecordBatch.from_pylist(some, schema=schema))
        assert table_of_rows(some, schema).equals(pa.Table.from_pylist(some, schema=schema))


def test_what_writes_a_dataset_does_not_import_pandas(tmp_path):
    """Where it is installed: elsewhere, nothing could import it."""
    pytest.importorskip("pandas")
    script = """
import sys
from pathlib import Path
import numpy as np
from solfa.encoding.frozen_plan import _spool_clips
from solfa.audio.recording import AudioInfo, Recording
from solfa.store.landmark_file import ClipLandmarks, create_landmarks
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec
from solfa.store.shard_writer import Outcome, ShardWriter
root = Path(sys.argv[1])
(root / ".tmp").mkdir()
clip = PlannedClip("a", "a", "a.wav", num_samples=4)
recording = Recording("a", "a.wav")
_spool_clips(root / "spool", [[(recording, AudioInfo(8, 1, 4, "WAV"))]], lambda *probed: [clip], 8, None)
spec = ArraySpec(
    kind="codes", dtype="uint16", width=1, codebook_size=4, sample_rate=8, num_channels=1, hop_length=1
)
with ShardWriter(root, 0, spec, {}) as writer:
    landmarks = np.arange(3, dtype=np.uint32)
    writer.add(Outcome(clip, np.zeros((4, 1), np.uint16), num_samples=4, scales=np.ones(2), landmarks=landmarks))
    writer.commit()
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
