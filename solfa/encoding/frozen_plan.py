"""Freeze the plan: list the source, probe what is new, cut it into clips and shards, and store the result once.

Rows go through a temporary Arrow file, so planning a million clips takes no more memory than planning a hundred.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from solfa.audio.probe import Probed, probe_in_chunks
from solfa.audio.recording import AudioInfo, AudioSource, Recording
from solfa.audio.sources.choice import locate
from solfa.encoding.clip_plan import clips_of, shard_bounds
from solfa.encoding.coverage import Span, imported_coverage
from solfa.encoding.planned_recordings import Known, PlannedRecordings
from solfa.encoding.recording_versions import has_changed, version_of, versions_of
from solfa.encoding.remembered_probes import forget_probes, probe_and_remember
from solfa.errors import StoreError
from solfa.files.crash_points import crash_point
from solfa.files.printable_names import unescape_path
from solfa.files.stores.place import Place, is_url, store_at
from solfa.store.layout import committed_shards, plan_parts
from solfa.store.plain_columns import batch_of_rows
from solfa.store.plan_file import PLAN_SCHEMA, iterate_plan_columns, list_shards, write_plan_part
from solfa.store.planned_clip import PlannedClip
from solfa.store.retries import retryable
from solfa.store.schema import ArraySpec

UNSURE_AT_ONCE = 65_536
"""Recordings that are looked up in the plan itself in one go: those that changed since they were planned."""


@dataclass
class PlanningReport:
    """What planning found: how much is new, and which known recordings have changed."""

    recordings: int = 0
    new_clips: int = 0
    changed: list[str] = field(default_factory=list)
    unplaced: int = 0
    """Recordings with imported clips of which it is not known what part of the recording they are."""


def extend_plan(
    root: Place,
    source: AudioSource,
    spec: ArraySpec,
    segment_seconds: float,
    *,
    limit: int | None = None,
    retry_failed: bool = False,
    on_recordings: Callable[[int], None] = lambda count: None,
) -> PlanningReport:
    """Add a part with the recordings that are not in the plan yet; if there are none, write nothing.

    Of recordings of which only crops were imported, the rest is planned.

    With `retry_failed`, clips that failed are planned again if their recordings can be opened now. `limit` stops after
    the recording that brings the whole plan to that many clips. If planning is killed, recordings that it opened are
    not opened again.
    """
    while True:
        report = PlanningReport()
        # Counted before reading the plan: if another process adds a part meanwhile, ours cannot take its number.
        part = len(plan_parts(root))
        spool = store_at(root).temporary("spool")
        try:
            with PlannedRecordings.read(root) as known:
                again = retryable(root) if retry_failed else {}
                missing, report.unplaced = imported_coverage(root)
                fresh = _fresh(root, source, known, again, missing, report, on_recordings)
                room = None if limit is None else limit - sum(shard.num_clips for shard in list_shards(root))
                planned = partial(
                    _clips_to_plan, again=again, missing=missing, segment_seconds=segment_seconds, spec=spec
                )
                # With a limit, a whole chunk at a time would open recordings that nobody asked for.
                probe = probe_in_chunks if room is not None else partial(probe_and_remember, root)
                seconds = _spool_clips(spool, probe(source.root, fresh), planned, spec.sample_rate, room)
                fresh.close()  # with a limit, it may not be through
            report.new_clips = len(seconds)
            crash_point("plan:before")
            bounds = shard_bounds(seconds, spec.frame_rate * spec.bytes_per_frame)
            if not bounds or write_plan_part(root, part, _shard_tables(spool, bounds)):
                crash_point("plan:after")
                forget_probes(root)
                return report
        finally:
            spool.unlink(missing_ok=True)


def refuse_strangers_to_come(root: Place, source: AudioSource) -> None:
    """Confine a plan that somebody else started to what the source names."""
    refuse_strangers(root, source, {shard.shard for shard in list_shards(root)}.difference(committed_shards(root)))


def refuse_strangers(root: Place, source: AudioSource, shards: Collection[int]) -> None:
    """Refuse shards that would have us read files outside the source's folder which the source does not name."""
    if not shards:
        return
    planned = enumerate(iterate_plan_columns(root, ["key", "uri"]))
    rows = (zip(columns["key"], columns["uri"], strict=True) for shard, columns in planned if shard in shards)
    expect_named(root, chain.from_iterable(rows), source)


def expect_named(where: Place, rows: Iterable[tuple[str, str]], source: AudioSource) -> None:
    """Refuse keys and uris of a list that lie outside the source's folder and that the source does not name."""
    leaving = ((key, uri) for key, uri in rows if _leaves(uri))
    # What a URL names is not even asked for: the server would learn that somebody did.
    strangers = {(key, uri) for key, uri in leaving if is_url(uri) or locate(source.root, uri).path.exists()}
    if not strangers:
        return
    strangers -= {(recording.key, recording.uri) for recording in source.recordings()}
    for key, uri in sorted(strangers):
        raise StoreError(
            f"{where}: its plan reads {uri} for {key!r}, which is outside {source.root} and not listed in it; "
            "pass the source this dataset was started with, or encode to another folder"
        )


def _leaves(uri: str) -> bool:
    path = unescape_path(uri)  # as it will be read: %2E%2E is .., too
    return is_url(uri) or path.is_absolute() or path.as_posix().startswith("/") or ".." in path.parts


def _fresh(
    root: Place,
    source: AudioSource,
    known: PlannedRecordings,
    again: Collection[str],
    missing: Collection[str],
    report: PlanningReport,
    on_recordings: Callable[[int], None],
) -> Generator[Recording, None, None]:
    unsure: list[Recording] = []
    try:
        for recording in source.recordings():
            report.recordings += 1
            on_recordings(report.recordings)
            found = Known.NO if recording.key in again else known.find(recording.key, version_of(recording))
            if found is Known.NO or (found is Known.AS_IT_IS and recording.key in missing):
                yield recording
            elif found is Known.UNSURE:
                unsure.append(recording)
            if len(unsure) == UNSURE_AT_ONCE:
                settled, unsure = unsure, []
                yield from _settle(root, settled, missing, report)
    except GeneratorExit:  # enough for a limit; what was listed is still reported
        _settle(root, unsure, missing, report)
        raise
    yield from _settle(root, unsure, missing, report)


def _settle(
    root: Place, unsure: Sequence[Recording], missing: Collection[str], report: PlanningReport
) -> list[Recording]:
    """Look recordings up in the plan itself: report those that changed, and return those that are to be planned."""
    planned = versions_of(root, [recording.key for recording in unsure]) if unsure else {}
    fresh = []
    for recording in unsure:
        version = planned.get(recording.key)
        if version is not None and has_changed(version, version_of(recording)):
            report.changed.append(recording.key)
        elif version is None or recording.key in missing:
            fresh.append(recording)
    return fresh


def _clips_to_plan(
    recording: Recording,
    info: AudioInfo | str,
    again: Mapping[str, Collection[str]],
    missing: Mapping[str, Sequence[Span]],
    segment_seconds: float,
    spec: ArraySpec,
) -> list[PlannedClip]:
    """Plan the clips of a recording; of one that is tried again, those that failed, if it can be opened now."""
    if recording.key in missing and recording.key not in again:
        return [] if isinstance(info, str) else _rest_of(recording, info, missing[recording.key], segment_seconds, spec)
    clips = list(clips_of(recording, info, segment_seconds, spec.sample_rate))
    failed = again.get(recording.key)
    if failed is None:
        return clips
    if isinstance(info, str):
        return []
    return [clip for clip in clips if recording.key in failed or clip.id in failed]


def _rest_of(
    recording: Recording, info: AudioInfo, missing: Sequence[Span], segment_seconds: float, spec: ArraySpec
) -> list[PlannedClip]:
    """Plan what imported crops left out; less than a frame comes from rounding."""
    bounds = [(round(start * info.num_samples), round(stop * info.num_samples)) for start, stop in missing]
    spans = [
        (start, stop)
        for start, stop in bounds
        if (stop - start) * spec.sample_rate >= spec.hop_length * info.sample_rate
    ]
    return list(clips_of(recording, info, segment_seconds, spec.sample_rate, spans))


def _spool_clips(
    spool: Path,
    probed_chunks: Iterable[Iterable[Probed]],
    clips_to_plan: Callable[[Recording, AudioInfo | str], list[PlannedClip]],
    sample_rate: int,
    room: int | None,
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Write the clips of all recordings to a temporary file; return how long each is."""
    seconds: list[float] = []
    with pa.OSFile(str(spool), "wb") as sink, pa.ipc.new_file(sink, PLAN_SCHEMA) as writer:
        for probed in probed_chunks:
            if room is not None and len(seconds) >= room:
                break
            clips: list[PlannedClip] = []
            for recording, info in probed:
                if room is not None and len(seconds) + len(clips) >= room:
                    break
                clips += clips_to_plan(recording, info)
            rows = [clip.as_row() for clip in clips]
            writer.write_batch(batch_of_rows(rows, PLAN_SCHEMA))
            seconds += [clip.num_samples / sample_rate for clip in clips]
    return np.array(seconds, np.float64)


def _shard_tables(spool: Path, bounds: list[tuple[int, int]]) -> Iterator[pa.Table]:
    """Yield the rows of each shard, ordered by length and then by id, so that equal lengths are adjacent."""
    with pa.memory_map(str(spool)) as source:
        clips = pa.ipc.open_file(source).read_all()
        for start, stop in bounds:
            rows = clips.slice(start, stop - start)
            yield rows.sort_by([("num_samples", "ascending"), ("id", "ascending")])
