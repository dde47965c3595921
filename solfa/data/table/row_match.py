"""Join a table to the clips of a dataset: which row belongs to which clip."""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from solfa.data.table.clip_table import ClipTable, TableIndex, index_table, keyed_rows
from solfa.data.table.joined_clips import JoinedRows
from solfa.errors import ConfigError
from solfa.files.chunks import chunks
from solfa.files.printable_names import escape_path
from solfa.store.planned_clip import metadata_text

log = logging.getLogger(__name__)

ROWS_PER_CHUNK = 4096


def join_table(table: ClipTable, recordings: Sequence[str], where: str) -> JoinedRows:
    """Find the row of each clip by the name of its recording; clips without a row are kept, and counted.

    The table is read twice and never kept as a whole: only the rows of these clips stay in memory.
    """
    index = index_table(table)
    found = match_rows(table, recordings, index)
    if recordings and not found:
        raise ConfigError(_no_match(table, recordings, index, where))
    used = sorted(set(found.values()))
    texts = [pa.array(chunk, pa.large_string()) for chunk in chunks(_texts(table, index, set(used)), ROWS_PER_CHUNK)]
    number_of = {position: number for number, position in enumerate(used)}
    numbers = {recording: number_of[position] for recording, position in found.items()}
    rows = np.array([numbers.get(recording, -1) for recording in recordings], np.int64)
    _tell(table, recordings, found, index, where)
    return JoinedRows(table, pa.chunked_array(texts, pa.large_string()), rows)


def match_rows(table: ClipTable, recordings: Sequence[str], index: TableIndex) -> dict[str, int]:
    """Find the position of the row of each recording that has one.

    Two recordings with the same row are an error, unless a pattern says so: `cd1/01.wav` and `cd2/01.wav` are hardly
    the same `01`.
    """
    found: dict[str, int] = {}
    owners: dict[int, str] = {}
    for recording in dict.fromkeys(recordings):
        key = next((name for name in table.names_of(recording) if name in index.positions), None)
        if key is None:
            continue
        found[recording] = position = index.positions[key]
        other = owners.setdefault(position, recording)
        if other != recording and table.pattern is None:
            raise ConfigError(
                f"{escape_path(table.file)}: the row with {table.key} {key!r} fits both {other!r} and {recording!r}; "
                "give each its own row, with its path as the key, or set a pattern if both share this one"
            )
    return found


def _texts(table: ClipTable, index: TableIndex, used: set[int]) -> Iterator[str]:
    """Write the rows in use as JSON; other rows with one of their keys must say the same."""
    first: dict[str, str] = {}
    for row in keyed_rows(table, index, used):
        text = metadata_text(row.values)
        if row.key in index.repeated and first.setdefault(row.key, text) != text:
            raise ConfigError(
                f"{escape_path(table.file)}, line {row.line}: an earlier row with {table.key} {row.key!r} says "
                "something else; keep one of them"
            )
        if row.position in used:
            yield text


def _no_match(table: ClipTable, recordings: Sequence[str], index: TableIndex, where: str) -> str:
    names = table.names_of(recordings[0])
    needs = f"needs {' or '.join(map(repr, names))} as {table.key}" if names else "the pattern does not match"
    return (
        f"{escape_path(table.file)}: no row matches a clip of {where}: the first clip is from {recordings[0]!r}, which "
        f"{needs}, and the first row has {next(iter(index.positions), None)!r}; set key to another column, "
        "or set a pattern that finds the key in a recording's name"
    )


def _tell(table: ClipTable, recordings: Sequence[str], found: dict[str, int], index: TableIndex, where: str) -> None:
    missing = [recording for recording in recordings if recording not in found]
    notes = [f"the first clip without a row is from {missing[0]!r}"] if missing else []
    notes += [f"rows without {table.key}: {index.num_keyless}"] if index.num_keyless else []
    notes += [f"SHA-256 {table.sha256[:16]}…"] if table.sha256 else []
    log.info(
        "%s: %d of %d clips of %s have a row (of %d rows); %s",
        *(table.file, len(recordings) - len(missing), len(recordings), where, index.num_rows, ", ".join(notes)),
    )
