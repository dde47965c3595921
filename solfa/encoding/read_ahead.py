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
WORK_AHEAD, WORK_AHEAD_FROM_AFAR = 0.5, 4.0
LEAST_SECONDS_AHEAD = 5.0
"""How far it does in encoders, which may share the work: as much audio as the codec needs half a second for, or four
seconds if audio or dataset are on a server; and 5 s until that is known. What is read ahead is taken from the others:
reading two minutes ahead, the first of two encoders would leave nothing of them."""
WAITING = 0.1
"""A codec that waits longer for audio than this share of its own time has too little read ahead."""
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


class _Queue(Generic[T]):
    """Tasks that are under way, in order."""

    def __init__(self, tasks: Iterator[_Task[T]], sample_rate: int) -> None:
        self._tasks, self._sample_rate = tasks, sample_rate
        self.waiting: deque[_Task[T]] = deque()

    def take(self, seconds_ahead: float) -> _Task[T] | None:
        """Take the next task, if there is any, with at least one under way behind it unless it is very long itself."""
        if not self.waiting and (first := next(self._tasks, None)) is not None:
            self.waiting.append(first)
        if not self.waiting:
            return None
        task = self.waiting.popleft()
        while self._has_room(task, seconds_ahead) and (later := next(self._tasks, None)) is not None:
            self.waiting.append(later)
        return task

    def _has_room(self, in_hand: _Task[T], seconds_ahead: float) -> bool:
        num_samples = sum(task.num_samples for task in self.waiting)
        if (in_hand.num_samples + num_samples) / self._sample_rate >= SECONDS_AHEAD:
            return False
        if not self.waiting:
            return True
        num_clips = sum(len(task.clips) for task in self.waiting)
        return num_clips + CLIPS_PER_TASK <= CLIPS_AHEAD and num_samples < seconds_ahead * self._sample_rate


class ReadingLead:
    """How far reading should be ahead of a codec, from how fast that works when it does not wait for audio.

    >>> from solfa.encoding.read_ahead import ReadingLead
    >>> lead = ReadingLead(work_ahead=0.5)
    >>> lead.seconds_ahead  # not known yet
    5.0
    >>> for _ in range(2):  # the first batch says nothing
    ...     lead.add(audio_seconds=30.0, codec_seconds=1.0, wall_seconds=1.0)
    >>> lead.seconds_ahead
    15.0
    >>> lead.add(audio_seconds=30.0, codec_seconds=1.0, wall_seconds=1.5)  # half a second waiting for audio
    >>> lead.seconds_ahead
    30.0
    """

    def __init__(self, work_ahead: float) -> None:
        """Be so many seconds of the codec's work ahead, and twice as many each time that it had to wait for audio."""
        self._work_ahead = work_ahead
        self._audio_seconds = self._codec_seconds = 0.0
        self._is_warm = False

    def add(self, audio_seconds: float, codec_seconds: float, wall_seconds: float) -> None:
        """Count audio, the time that the codec took for it, and that time with what it waited before."""
        if not self._is_warm:  # a codec's first batch takes longer than others, and there was nothing to wait for
            self._is_warm = True
            return
        self._audio_seconds += audio_seconds
        self._codec_seconds += codec_seconds
        if wall_seconds > (1 + WAITING) * codec_seconds and self.seconds_ahead < SECONDS_AHEAD:
            self._work_ahead *= 2

    @property
    def seconds_ahead(self) -> float:
        """How many seconds of audio to read ahead."""
        if not self._codec_seconds:
            return LEAST_SECONDS_AHEAD
        rate = self._audio_seconds / self._codec_seconds
        return min(max(rate * self._work_ahead, LEAST_SECONDS_AHEAD), SECONDS_AHEAD)


class DecodeAhead:
    """Decodes clips in order, a bounded amount ahead of what is requested."""

    def __init__(
        self, target: Target, num_workers: int, readers: Executor | None = None, lead: ReadingLead | None = None
    ) -> None:
        """Take over `readers` that are there already, or start as many as are wanted.

        With a `lead`, no more is read ahead than the codec needs; without one, two minutes.
        """
        self._target, self._num_workers, self._lead = target, num_workers, lead
        self._pool = start_readers(num_workers) if readers is None else readers

    def __enter__(self) -> "DecodeAhead":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def decode(self, clips: Iterable[tuple[T, PlannedClip]]) -> Iterator[Decoded[T]]:
        """Yield the audio of every clip, in the order given."""
        queue = _Queue(self._tasks(iter(clips)), self._target.sample_rate)
        while True:
            task = queue.take(self._seconds_ahead())
            if task is None:
                return
            try:
                heard = task.future.result()
            except BrokenProcessPool:
                heard = self._hear_one_by_one(task)
                queue.waiting = deque(later._replace(future=self._submit(later.clips)) for later in queue.waiting)
            for (label, clip), one in zip(task.clips, heard, strict=True):
                if isinstance(one.audio, str):
                    yield Decoded(label, clip, None, one.audio)
                else:
                    yield Decoded(label, clip, one.audio, None, one.landmarks)

    def _seconds_ahead(self) -> float:
        return SECONDS_AHEAD if self._lead is None else self._lead.seconds_ahead

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
