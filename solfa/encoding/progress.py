"""What an encoding run reports: to a listener while it runs, and at its end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from solfa.encoding.source_summary import SidecarFault
from solfa.files.stores.place import Place
from solfa.store.failed_recordings import FailedRecording, failed_recordings
from solfa.store.schema import DatasetInfo
from solfa.store.shard_reader import FailedClip


class Progress(NamedTuple):
    """What happened since the last report of one encoder."""

    clips: int = 0
    """Clips that were dealt with, failed ones included."""
    failed: Sequence[str] = ()
    """The recordings of those that failed, one name per clip."""
    seconds: float = 0.0
    """Audio encoded."""
    codec_seconds: float = 0.0
    """Time spent inside the codec."""
    wall_seconds: float = 0.0
    """Time since the last report."""
    shard: int | None = None
    """The shard that it was about."""


@dataclass
class Totals:
    """Sums over what has been encoded in this run."""

    clips: int = 0
    failed: set[str] = field(default_factory=set)
    """Recordings of which clips failed."""
    seconds: float = 0.0
    """Audio encoded."""
    codec_seconds: float = 0.0
    """Time inside the codec, summed over the encoders."""
    wall_seconds: float = 0.0
    """Working time, summed over the encoders."""
    span_seconds: float = 0.0
    """Time from the first clip of any encoder to the last."""

    def add(self, progress: Progress, now: float) -> None:
        """Add one encoder's report, which came in at `now`."""
        if self.clips == 0:
            self._began = now - progress.wall_seconds
        self.failed.update(progress.failed)
        self.clips += progress.clips
        self.seconds += progress.seconds
        self.codec_seconds += progress.codec_seconds
        self.wall_seconds += progress.wall_seconds
        self.span_seconds = now - self._began


class Listener(Protocol):
    """Something that shows the progress of an encoding run; if it raises an error, the run ends in order."""

    def settled(self, info: DatasetInfo, *, is_new: bool) -> None:
        """Report what will be made, or went on with, before anything else."""
        ...

    def waiting(self) -> None:
        """Called a few times a second while there is nothing to report."""
        ...

    def listing(self, objects: int) -> None:
        """Report how many objects of a bucket were listed: a recording is known when all are."""
        ...

    def planning(self, recordings: int) -> None:
        """Report how many recordings of the source have been scanned."""
        ...

    def loading(self, encoders: int) -> None:
        """Report that encoders are being started."""
        ...

    def encoding(self, done: Totals, clips: int, seconds: float) -> None:
        """Report what is done, out of how many clips and seconds of audio in this run; nothing yet, at first."""
        ...


class Silence:
    """A listener that shows nothing."""

    def settled(self, info: DatasetInfo, *, is_new: bool) -> None: ...
    def waiting(self) -> None: ...
    def listing(self, objects: int) -> None: ...
    def planning(self, recordings: int) -> None: ...
    def loading(self, encoders: int) -> None: ...
    def encoding(self, done: Totals, clips: int, seconds: float) -> None: ...


@dataclass(frozen=True)
class EncodeReport:
    """The state of the dataset after a run, and what the run did."""

    dataset: Place
    codec: str
    clips: int
    """Clips in the dataset."""
    failed: int
    """Clips that could not be encoded; their reasons are in `failures`."""
    seconds: float
    num_frames: int
    num_bytes: int
    """Size of the dataset's files."""
    raw_bytes: int
    """Size of the same audio as 16-bit PCM at its original rate and channels, if these are known."""
    new_clips: int
    """Clips this run encoded (failed ones included)."""
    elapsed_seconds: float
    encode_seconds: float
    """Wall time from the first clip to the last."""
    new_seconds: float
    """Audio this run encoded."""
    codec_share: float
    """Share of the encoders' time that was spent inside the codec."""
    changed: list[str] = field(default_factory=list)
    """Recordings that changed after they were planned; they are not encoded again."""
    unplaced: int = 0
    """Recordings with imported clips that may not be all of them: where the clips were taken from is not known."""
    failures: list[FailedClip] = field(default_factory=list)
    resampled: Mapping[int, int] = field(default_factory=dict)
    """Recordings of the dataset that were resampled, by their own sample rate."""
    mixed_down: int = 0
    """Recordings of the dataset that had more channels than the codec has."""
    sidecar_faults: list[SidecarFault] = field(default_factory=list)
    """Recordings of the dataset that were encoded without what a file beside them says, and what is wrong with it."""

    kind: Literal["codes", "latents"] = "codes"
    sample_rate: int = 0
    num_channels: int = 0
    """Of the dataset's audio: what the codec takes and gives."""

    @property
    def failed_recordings(self) -> list[FailedRecording]:
        """The failures by recording."""
        return failed_recordings(self.failures)

    @property
    def speed(self) -> float:
        """Audio-seconds per second of this run."""
        return self.new_seconds / self.encode_seconds if self.encode_seconds else 0.0

    @property
    def compression(self) -> float:
        """How many times smaller the dataset is than 16-bit PCM."""
        return self.raw_bytes / self.num_bytes if self.num_bytes else 0.0
