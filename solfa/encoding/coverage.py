"""Which parts of its recordings a dataset with imported clips leaves out.

What `solfa encode` plans covers recordings whole. Imported clips may be crops: one random crop per recording is what
stable-audio-tools stores. Spans are fractions of a recording, as its `timestamps` are.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from solfa.files.json_objects import parse_object
from solfa.files.stores.place import Place
from solfa.store.layout import committed_shards, read_commit, read_info
from solfa.store.plan_file import iterate_plan_columns
from solfa.store.schema import Commit
from solfa.store.shard_reader import ShardReader

Span = tuple[float, float]
"""From 0, where a recording begins, to 1, where it ends."""

WHOLE: Span = (0.0, 1.0)
IMPORTED_FROM = "imported_from"
"""What the commits of imported shards say they were made by."""

_COLUMNS = ["id", "key", "start", "stop", "source_num_samples"]


class Coverage(NamedTuple):
    """What is known about the recordings of imported clips, by their keys."""

    missing: Mapping[str, Sequence[Span]]
    """What no clip holds, of recordings that are not there whole."""
    unplaced: int
    """Recordings of whose clips it is not known where they were taken from."""


def told_span(metadata: Mapping[str, Any]) -> Span | None:
    """Read the place of a clip from the `timestamps` that stable-audio-tools writes."""
    match metadata.get("timestamps"):
        case [int() | float() as start, int() | float() as stop] if isfinite(start) and isfinite(stop):
            return (float(start), min(float(stop), 1.0)) if 0 <= start < min(stop, 1.0) else None
    return None


def gaps(spans: Iterable[Span]) -> list[Span]:
    """List what spans leave of a recording."""
    found, reached = [], 0.0
    for start, stop in sorted(spans):
        if start > reached:
            found.append((reached, start))
        reached = max(reached, stop)
    return [*found, (reached, 1.0)] if reached < 1 else found


def held_share(spans: Iterable[Span]) -> float:
    """Say how much of a recording spans hold, counting what two of them share once."""
    return 1 - sum(stop - start for start, stop in gaps(spans))


def imported_coverage(root: Place) -> Coverage:
    """Go through the plan of a dataset; one without imported clips is whole."""
    commits = [read_commit(root, shard) for shard in committed_shards(root)]
    imported = {commit.shard: commit for commit in commits if IMPORTED_FROM in commit.made_by}
    if not imported:
        return Coverage({}, 0)
    spans, unplaced = _imported_spans(root, imported)
    for shard, columns in enumerate(iterate_plan_columns(root, _COLUMNS)):
        for _, key, start, stop, total in zip(*(columns[name] for name in _COLUMNS), strict=True):
            if shard not in imported and key in spans:
                spans[key].append((start / total, stop / total) if total else WHOLE)
    missing = {key: left for key, held in spans.items() if (left := gaps(held))}
    return Coverage(missing, len(unplaced))


def _imported_spans(root: Place, imported: Mapping[int, Commit]) -> tuple[dict[str, list[Span]], set[str]]:
    """Find the places of imported clips, and the recordings with a clip that has none.

    Nothing is added to a recording that failed as a whole: the failure would then seem to be made up for.
    """
    spec = read_info(root).array
    spans: dict[str, list[Span]] = {}
    unplaced: set[str] = set()
    for shard, columns in enumerate(iterate_plan_columns(root, [*_COLUMNS, "metadata"])):
        if shard not in imported:
            continue
        commit = imported[shard]
        failed = {clip.id for clip in ShardReader(root, commit, spec).failures()} if commit.num_failed else set()
        rows = zip(*(columns[name] for name in [*_COLUMNS, "metadata"]), strict=True)
        for clip_id, key, start, stop, total, metadata in rows:
            told = (start / total, stop / total) if total else told_span(parse_object(metadata))
            if told is None:
                unplaced.add(key)
            spans.setdefault(key, []).append(WHOLE if told is None or key == clip_id in failed else told)
    return spans, unplaced
