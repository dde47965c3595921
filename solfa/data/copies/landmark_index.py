"""An index of landmarks: which clips have a landmark, and when. A million clips of 10 s take 1.6 GB.

    kinds             the different landmarks, in order
    buckets           where those of each kind begin in the two arrays below
    clips, frames     whose each is, and when it begins

Two clips are copies if many landmarks of one come again in the other, all of them equally much later.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64, Shaped, UInt32

from solfa.errors import StoreError
from solfa.files.whole_files import publish, temporary_path
from solfa.ops.landmarks import NUM_LANDMARKS, Landmarks, unpack_clips
from solfa.store.landmark_file import StoredLandmarks

CLIPS_AT_ONCE = 4096
"""How many clips are sorted into the index at a time; the memory for that is on top of the index."""
COMMON_LEAST, COMMON_SHARE = 2_000, 1 / 200
"""A landmark that comes up more often than both says little, and the common ones would take most of the time."""


class Agreement(NamedTuple):
    """A clip of the index that has landmarks of a query, all equally much later or earlier."""

    clip: int
    landmarks: int
    """How many different ones agree, give or take a frame."""
    offset: int
    """Where the query would begin in the clip, in frames; negative if it begins earlier."""
    first: int
    last: int
    """Frames of the query between which they are."""


class LandmarkIndex:
    """Finds the clips that have landmarks in common with a query."""

    def __init__(
        self,
        kinds: Int64[np.ndarray, "kinds"],
        buckets: Int64[np.ndarray, "kinds_and_end"],
        clips: UInt32[np.ndarray, "n"],
        frames: Shaped[np.ndarray, "n"],
        num_clips: int,
    ) -> None:
        self._kinds, self._buckets, self._clips, self._frames = kinds, buckets, clips, frames
        self.num_clips = num_clips
        self._common = max(COMMON_LEAST, round(COMMON_SHARE * num_clips))

    @property
    def num_bytes(self) -> int:
        """What it takes in memory."""
        return self._kinds.nbytes + self._buckets.nbytes + self._clips.nbytes + self._frames.nbytes

    @classmethod
    def build(cls, parts: Callable[[], Iterable[StoredLandmarks]]) -> "LandmarkIndex":
        """Sort the landmarks of all clips by kind; `parts` is iterated twice and may read its clips from files."""
        counts = np.zeros(NUM_LANDMARKS, np.int64)
        longest = num_clips = 0
        for chunk in _chunks(parts()):
            found, _ = unpack_clips(chunk.numbers, chunk.starts)
            np.add.at(counts, found.pairs, 1)
            longest = max(longest, int(found.frames.max(initial=0)))
            num_clips += len(chunk.is_known)
        kinds = np.flatnonzero(counts)
        buckets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts[kinds])])
        clips = np.empty(buckets[-1], np.uint32)
        frames = np.empty(buckets[-1], np.uint16 if longest < 1 << 16 else np.uint32)
        cursor = buckets[:-1].copy()
        first_clip = 0
        for chunk in _chunks(parts()):
            found, owners = unpack_clips(chunk.numbers, chunk.starts)
            # By kind, then in the order given: one number holds both, and sorts faster than two.
            order = np.sort((found.pairs.astype(np.uint64) << 32) | np.arange(len(owners), dtype=np.uint64))
            pairs, order = (order >> 32).astype(np.int64), (order & 0xFFFFFFFF).astype(np.int64)
            new = np.flatnonzero(np.diff(pairs, prepend=-1))
            lengths = np.diff(new, append=len(pairs))
            rows = np.searchsorted(kinds, pairs[new])
            places = np.arange(len(pairs)) + np.repeat(cursor[rows] - new, lengths)
            clips[places] = owners[order] + first_clip
            frames[places] = found.frames[order]
            cursor[rows] += lengths
            first_clip += len(chunk.is_known)
        return cls(kinds, buckets, clips, frames, num_clips)

    def agreements(self, query: Landmarks, min_landmarks: int) -> list[Agreement]:
        """Find the clips in which at least so many landmarks of a query agree, in the order of the index."""
        if not len(self._kinds):
            return []
        rows = np.minimum(np.searchsorted(self._kinds, query.pairs), len(self._kinds) - 1)
        counts = self._buckets[rows + 1] - self._buckets[rows]
        asked = np.flatnonzero((self._kinds[rows] == query.pairs) & (counts <= self._common))
        counts = counts[asked]
        if counts.sum() < min_landmarks:
            return []
        who = np.repeat(asked, counts)
        ends = np.cumsum(counts)
        places = np.arange(ends[-1]) + np.repeat(self._buckets[rows[asked]] - ends + counts, counts)
        clips = self._clips[places].astype(np.int64)
        # Most clips have a landmark or two in common with anything.
        enough = np.flatnonzero(np.bincount(clips, minlength=self.num_clips)[clips] >= min_landmarks)
        if not len(enough):
            return []
        clips, who, offsets = clips[enough], who[enough], self._frames[places[enough]] - query.frames[who[enough]]
        # One number for a clip and an offset, with room between clips.
        low = int(offsets.min()) - 2
        width = int(offsets.max()) - low + 3
        keys = clips * width + (offsets - low)
        order = np.argsort(keys)
        sorted_keys = keys[order]
        first = np.flatnonzero(np.diff(sorted_keys, prepend=-1))
        votes = np.diff(first, append=len(keys))
        kinds = sorted_keys[first]
        following = np.append(np.where(np.diff(kinds) == 1, votes[1:], 0), 0)
        likely = np.flatnonzero(votes + following >= min_landmarks)
        best: dict[int, Agreement] = {}
        for place in likely.tolist():
            begin, length = int(first[place]), int(votes[place] + following[place])
            agreeing = who[order[begin : begin + length]]
            # A tone that is held gives one landmark again and again, which counts once.
            landmarks = len(np.unique(query.pairs[agreeing]))
            clip, offset = divmod(int(kinds[place]), width)
            if landmarks >= min_landmarks and (clip not in best or landmarks > best[clip].landmarks):
                begins = query.frames[agreeing]
                best[clip] = Agreement(clip, landmarks, offset + low, int(begins.min()), int(begins.max()))
        return [best[clip] for clip in sorted(best)]

    def save(self, path: Path) -> bool:
        """Write it to a file; return False, and change nothing, if the file exists."""
        temporary = temporary_path(path.parent, path.name)
        try:
            with temporary.open("wb") as file:
                for array in (np.array([self.num_clips]), self._kinds, self._buckets, self._clips, self._frames):
                    np.save(file, array, allow_pickle=False)
            return publish(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> "LandmarkIndex":
        """Read what `save` wrote."""
        try:
            with path.open("rb") as file:
                num_clips, kinds, buckets, clips, frames = (np.load(file, allow_pickle=False) for _ in range(5))
        except (ValueError, EOFError) as error:
            raise StoreError(f"{path}: not an index of landmarks ({error}); remove the file") from None
        if len(buckets) != len(kinds) + 1 or not buckets[-1] == len(clips) == len(frames):
            raise StoreError(f"{path}: not an index of landmarks, or of another version; remove the file")
        return cls(kinds, buckets, clips, frames, int(num_clips[0]))


def _chunks(parts: Iterable[StoredLandmarks]) -> Iterable[StoredLandmarks]:
    """Cut parts into pieces of at most `CLIPS_AT_ONCE` clips."""
    for part in parts:
        for first in range(0, len(part.is_known), CLIPS_AT_ONCE):
            known = part.is_known[first : first + CLIPS_AT_ONCE]
            starts = part.starts[first : first + len(known) + 1]
            yield StoredLandmarks(part.numbers[starts[0] : starts[-1]], starts - starts[0], known)
