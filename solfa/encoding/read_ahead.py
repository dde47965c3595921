"""Read audio ahead of the codec, in other processes, in order.

The processes import neither torch nor Arrow, so they start fast and stay small. A file that crashes its decoder costs
one process and becomes a failed clip.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from solfa.audio.reader import read_span
from solfa.audio.recording import AudioInfo
from solfa.audio.sources.location import file_version, locate
from solfa.encoding.reader_pool import start_readers
from solfa.errors import AudioError
from solfa.files.stores.place import Place
from solfa.ops.landmarks import find_landmarks, pack_landmarks
from solfa.store.planned_clip import PlannedClip

SECONDS_AHEAD = 120.0
CLIPS_AHEAD = 512
"""How far decoding may run ahead: about 50 MB of 48 kHz stereo."""
SECONDS_PER_TASK = 2.0
CLIPS_PER_TASK = 64
"""Short clips are sent to a process together: to send one and to wait for it takes longer than to read a tenth of a
second."""

T = TypeVar("T")


class Target(NamedTuple):
    """The form in which the codec expects its audio."""

    root: Place
    """What the uris of the plan are relative to."""
    sample_rate: int
    num_channels: int
    landmarks: bool = False
    """Whether to find out what the audio sounds like, too, while it is in memory."""


class Decoded(NamedTuple, Generic[T]):
    """The audio of one clip, or why there is none; `label` is what the caller attached to it."""

    label: T
    clip: PlannedClip
    audio: np.ndarray[Any, Any] | None
    error: str | None
    landmarks: np.ndarray[Any, Any] | None = None
    """Those of the audio, packed, if they were asked for."""


def decode_clip(clip: PlannedClip, target: Target) -> np.ndarray[Any, Any] | str:
    """Read one clip as float32 [C, N], or return the reason why it cannot be read."""
    if clip.error is not None:
        return clip.error
    location = locate(target.root, clip.uri, clip.member, clip.member_offset, clip.member_size)
    info = AudioInfo(clip.source_sample_rate, clip.source_num_channels, clip.source_num_samples, clip.source_format)
    try:
        if file_version(location.path) != (clip.size_bytes, clip.mtime_ns):
            return "changed since it was planned; encode it into a new dataset"
        return read_span(location, info, clip.start, clip.stop, target.sample_rate, target.num_channels)
    except AudioError as error:
        return str(error)
    except MemoryError:
        return "takes more memory than there is; cut recordings into clips with `segment_seconds`"
    except FileNotFoundError:
        return "disappeared since it was planned"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"


class Heard(NamedTuple):
    """What became of a clip in another process: its audio or the reason why there is none, and its landmarks."""

    audio: np.ndarray[Any, Any] | str
    landmarks: np.ndarray[Any, Any] | None = None


def hear_clips(clips: list[PlannedClip], target: Target) -> list[Heard]:
    """Read clips and, if they are wanted, find their landmarks."""
    return [_hear_clip(clip, target) for clip in clips]


def _hear_clip(clip: PlannedClip, target: Target) -> Heard:
    audio = decode_clip(clip, target)
    if isinstance(audio, str) or not target.landmarks:
        return Heard(audio)
    return Heard(audio, pack_landmarks(find_landmarks(audio, target.sample_rate)))


class _Task(NamedTuple, Generic[T]):
    """Clips that are decoded together, and what will become of them."""

    clips: list[tuple[T, PlannedClip]]
    num_samples: int
    future: "Future[list[Heard]]"


class DecodeAhead:
    """Decodes clips in order, a bounded amount ahead of what is requested."""

    def __init__(self, target: Target, num_workers: int, readers: Executor | None = None) -> None:
        """Take over `readers` that are there already, or start as many as are wanted."""
        self._target, self._num_workers = target, num_workers
        self._pool = start_readers(num_workers) if readers is None else readers

    def __enter__(self) -> "DecodeAhead":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def decode(self, clips: Iterable[tuple[T, PlannedClip]]) -> Iterator[Decoded[T]]:
        """Yield the audio of every clip, in the order given."""
        tasks = self._tasks(iter(clips))
        waiting: deque[_Task[T]] = deque()
        num_clips = num_samples = 0
        while True:
            while self._has_room(num_clips, num_samples) and (task := next(tasks, None)) is not None:
                waiting.append(task)
                num_clips, num_samples = num_clips + len(task.clips), num_samples + task.num_samples
            if not waiting:
                return
            task = waiting.popleft()
            num_clips, num_samples = num_clips - len(task.clips), num_samples - task.num_samples
            try:
                heard = task.future.result()
            except BrokenProcessPool:
                heard = self._hear_one_by_one(task)
                waiting = deque(later._replace(future=self._submit(later.clips)) for later in waiting)
            for (label, clip), one in zip(task.clips, heard, strict=True):
                if isinstance(one.audio, str):
                    yield Decoded(label, clip, None, one.audio)
                else:
                    yield Decoded(label, clip, one.audio, None, one.landmarks)

    def _has_room(self, num_clips: int, num_samples: int) -> bool:
        ahead = num_samples / self._target.sample_rate
        return not num_clips or (num_clips + CLIPS_PER_TASK <= CLIPS_AHEAD and ahead < SECONDS_AHEAD)

    def _tasks(self, upcoming: Iterator[tuple[T, PlannedClip]]) -> Iterator[_Task[T]]:
        """Submit clips as they are asked for, short ones together."""
        together: list[tuple[T, PlannedClip]] = []
        num_samples = 0
        for item in upcoming:
            together.append(item)
            num_samples += item[1].num_samples
            if len(together) == CLIPS_PER_TASK or num_samples >= SECONDS_PER_TASK * self._target.sample_rate:
                yield _Task(together, num_samples, self._submit(together))
                together, num_samples = [], 0
        if together:
            yield _Task(together, num_samples, self._submit(together))

    def _submit(self, clips: list[tuple[T, PlannedClip]]) -> "Future[list[Heard]]":
        return self._pool.submit(hear_clips, [clip for _, clip in clips], self._target)

    def _hear_one_by_one(self, task: _Task[T]) -> list[Heard]:
        """Decode each clip by itself: another one may have crashed the process they were in."""
        self._restart()
        heard: list[Heard] = []
        for item in task.clips:
            try:
                heard += self._submit([item]).result()
            except BrokenProcessPool:
                heard.append(Heard("its decoder crashed"))
                self._restart()
        return heard

    def _restart(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = start_readers(self._num_workers)
