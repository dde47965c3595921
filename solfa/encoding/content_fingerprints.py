"""Add content fingerprints to a dataset that was encoded without: read its audio again, write new files, change none.

Resuming means making what is missing: shards whose landmarks are stored are not read again.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from solfa.audio.recording import AudioSource
from solfa.audio.sources.choice import open_source
from solfa.encoding.frozen_plan import refuse_strangers
from solfa.encoding.read_ahead import DecodeAhead, Target
from solfa.errors import ConfigError
from solfa.files.stores.place import Place, read_place
from solfa.store.landmark_file import ClipLandmarks, create_landmarks, shards_with_landmarks
from solfa.store.layout import committed_shards, expect_real_folders, read_commit, read_info
from solfa.store.plan_file import list_shards, read_shard_plan
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec
from solfa.store.shard_reader import ShardReader


class UnheardClip(NamedTuple):
    """A clip that has no fingerprint, and why."""

    id: str
    reason: str


class FingerprintReport(NamedTuple):
    """How many clips have got fingerprints in this run, and which could not."""

    new_clips: int
    new_shards: int
    num_shards: int
    unheard: list[UnheardClip]


def add_fingerprints(
    dataset: str | Place,
    source: str | Path | AudioSource,
    *,
    audio_root: str | Path | None = None,
    trust_code: bool = False,
    num_workers: int = 0,
    on_shard: Callable[[int, int], None] = lambda done, total: None,
) -> FingerprintReport:
    """Store what the clips of a dataset sound like, from the audio that it was encoded from; repeat it to resume.

    A clip whose recording is gone or has changed gets none, and is listed. `num_workers` processes read the audio; 0
    reads it in this one.

    >>> import solfa
    >>> from solfa.encoding import add_fingerprints
    >>> report = solfa.encode("audio/drums", "old.solfa", codec=solfa.load_codec("mulaw"), fingerprints=False)
    >>> add_fingerprints("old.solfa", "audio/drums").new_clips
    2
    """
    root = read_place(dataset)
    info = read_info(root)
    expect_real_folders(root)
    if isinstance(source, str | Path):
        source = open_source(source, audio_root=None if audio_root is None else Path(audio_root), trust_code=trust_code)
    done = set(shards_with_landmarks(root))
    planned = {shard.shard: shard for shard in list_shards(root)}
    missing = [shard for shard in committed_shards(root) if shard not in done and shard in planned]
    refuse_strangers(root, source, missing)
    unheard: list[UnheardClip] = []
    new_clips = 0
    with DecodeAhead(Target(source.root, info.array.sample_rate, info.array.num_channels, True), num_workers) as ahead:
        for number, shard in enumerate(missing, 1):
            clips = _stored(root, shard, read_shard_plan(root, planned[shard]), info.array)
            found = list(_heard(ahead, clips, unheard))
            # A shard of which nothing could be read may be tried again when the audio is back.
            if found or not clips:
                create_landmarks(root, shard, found)
            new_clips += len(found)
            on_shard(number, len(missing))
    if missing and not new_clips and unheard:
        first = unheard[0]
        raise ConfigError(
            f"{source.root}: expected the audio that {root} was encoded from, but none of it could be read "
            f"(first: {first.id}: {first.reason}); pass that audio as `source`"
        )
    return FingerprintReport(new_clips, len(missing), len(planned), unheard)


def _stored(root: Place, shard: int, clips: list[PlannedClip], spec: ArraySpec) -> list[PlannedClip]:
    """Leave out the clips of a shard that failed."""
    stored = set(ShardReader(root, read_commit(root, shard), spec).ids)
    return [clip for clip in clips if clip.id in stored]


def _heard(ahead: DecodeAhead, clips: list[PlannedClip], unheard: list[UnheardClip]) -> Iterator[ClipLandmarks]:
    readable = [clip for clip in clips if clip.source_sample_rate > 0]
    unheard += [UnheardClip(clip.id, "imported without its audio") for clip in clips if clip.source_sample_rate == 0]
    for decoded in ahead.decode((None, clip) for clip in readable):
        if decoded.landmarks is None:
            unheard.append(UnheardClip(decoded.clip.id, decoded.error or "unknown"))
        else:
            yield ClipLandmarks(decoded.clip.id, decoded.landmarks)
