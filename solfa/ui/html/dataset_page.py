"""Make a page about any dataset: its facts, some clips to listen to, statistics, failures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solfa.evaluate.statistics import code_statistics, latent_statistics, length_histogram
from solfa.files.stores.place import Place
from solfa.spelling import channels, count, duration, plural, short, size
from solfa.store.failed_recordings import failed_recordings
from solfa.store.shard_reader import FailedClip
from solfa.ui.html.cards import PLAYER_SECONDS
from solfa.ui.html.report_data import ClipCard, Fact, FailureRow, ReportPage, Sound

MAX_STATISTICS_VALUES = 200_000_000
"""How many codes or latents to compute statistics from; in a larger dataset, every n-th clip is read."""


class ArrayDescription(Protocol):
    """What the page needs to know about a dataset's arrays."""

    @property
    def kind(self) -> str: ...
    @property
    def width(self) -> int: ...
    @property
    def codebook_size(self) -> int | None: ...
    @property
    def frame_rate(self) -> float: ...
    @property
    def sample_rate(self) -> int: ...
    @property
    def num_channels(self) -> int: ...
    @property
    def dtype(self) -> str: ...


class DatasetDescription(Protocol):
    """What the page needs to know about a dataset."""

    @property
    def array(self) -> ArrayDescription: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def codec(self) -> str: ...


class PageClip(Protocol):
    """What the page shows about a clip."""

    @property
    def id(self) -> str: ...
    @property
    def array(self) -> np.ndarray[Any, Any]: ...
    @property
    def num_samples(self) -> int: ...
    @property
    def scales(self) -> np.ndarray[Any, Any] | None: ...
    @property
    def seconds(self) -> float: ...
    @property
    def caption(self) -> str | None: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


class PageDataset(Protocol):
    """What the page needs from a dataset."""

    @property
    def path(self) -> Place: ...
    @property
    def info(self) -> DatasetDescription: ...
    @property
    def num_frames(self) -> np.ndarray[Any, Any]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> PageClip: ...
    def failures(self) -> Sequence[FailedClip]: ...


class AsNumpy(Protocol):
    """All that the page needs from a tensor."""

    def numpy(self, *, force: bool = ...) -> np.ndarray[Any, Any]: ...


@dataclass(frozen=True, eq=False)
class Beginning:
    """The first frames of a long clip, to be decoded without the rest."""

    array: np.ndarray[Any, Any]
    num_samples: int
    scales: np.ndarray[Any, Any] | None = None


class PageCodec(Protocol):
    """What the page needs from a codec."""

    def decode(self, encoded: Beginning, /) -> AsNumpy: ...


def dataset_page(
    dataset: PageDataset,
    codec: PageCodec | None = None,
    originals: Callable[[Any], NDArray[Any] | None] | None = None,
    *,
    num_clips: int = 6,
    title: str | None = None,
    subtitle: str = "",
    more_facts: Sequence[Fact] = (),
    max_values: int | None = None,
    failures_place: str = "listed below",
) -> ReportPage:
    """Describe a dataset, with `num_clips` clips spread evenly across it.

    With a codec, the clips are decoded; `originals` returns the audio `[C, N]` of a clip at the codec's rate, or None.
    `more_facts` are added to the dataset's own, such as how fast it was encoded. Statistics are computed from about
    `max_values` codes or latents (None: `MAX_STATISTICS_VALUES`). `failures_place` says where to read what failed.
    """
    array = dataset.info.array
    stride = statistics_stride(int(dataset.num_frames.sum()) * array.width, max_values or MAX_STATISTICS_VALUES)
    arrays = (dataset[index].array for index in range(0, len(dataset), stride))
    is_codes = array.codebook_size is not None
    failures = tuple(FailureRow(failed.name, failed.error) for failed in failed_recordings(dataset.failures()))
    return ReportPage(
        title=title or dataset.path.name,
        subtitle=subtitle or f"A Solfa dataset of {'codes' if is_codes else 'latents'} from {dataset.info.codec}",
        facts=(*_facts(dataset, len(failures), failures_place), *more_facts),
        details=_details(dataset),
        cards=tuple(_card(dataset[index], array, codec, originals) for index in spread(len(dataset), num_clips)),
        failures=failures,
        lengths=length_histogram(dataset.num_frames / array.frame_rate),
        codes=code_statistics(arrays, array.codebook_size) if array.codebook_size is not None else None,
        latents=None if is_codes else latent_statistics(arrays),
        statistics_note=f"Computed from one in {stride} clips." if stride > 1 else "",
    )


def spread(num_items: int, num_wanted: int) -> list[int]:
    """Choose evenly spaced indices, including the first and the last."""
    wanted = max(0, min(num_items, num_wanted))
    return sorted({round(place) for place in np.linspace(0, max(0, num_items - 1), wanted)})


def statistics_stride(num_values: int, max_values: int) -> int:
    """Choose n so that reading every n-th clip reads at most about `max_values` values."""
    return max(1, -(-num_values // max_values))


def _facts(dataset: PageDataset, num_failed: int, failures_place: str) -> list[Fact]:
    array = dataset.info.array
    frames = int(dataset.num_frames.sum())
    seconds = frames / array.frame_rate
    num_bytes = frames * array.width * np.dtype(array.dtype).itemsize
    pcm_bytes = seconds * array.sample_rate * array.num_channels * 2
    facts = [
        Fact("Clips", count(len(dataset))),
        Fact("Audio", duration(seconds)),
        Fact("Frames", count(frames), f"{short(array.frame_rate)} per second"),
        Fact("Arrays", size(num_bytes), f"{array.dtype}, {array.width} wide"),
    ]
    if num_bytes:
        facts.append(
            Fact("Compression", f"{short(pcm_bytes / num_bytes)}×", "compared with 16-bit PCM at the same rate")
        )
    failed = Fact("Failed", plural(num_failed, "recording"), failures_place) if num_failed else Fact("Failed", "0")
    facts.append(failed)
    return facts


def _details(dataset: PageDataset) -> tuple[Fact, ...]:
    array = dataset.info.array
    entries = "" if array.codebook_size is None else f" of {count(array.codebook_size)} entries"
    noun = "channel" if array.codebook_size is None else "codebook"
    return (
        Fact("Dataset", str(dataset.path)),
        Fact("Codec", dataset.info.codec),
        Fact("Sampling", f"{count(array.sample_rate)} Hz, {channels(array.num_channels)}"),
        Fact("Values", f"{array.kind}, {plural(array.width, noun)}{entries}, {array.dtype}"),
        Fact("Fingerprint", dataset.info.fingerprint),
    )


def _card(
    clip: PageClip,
    array: ArrayDescription,
    codec: PageCodec | None,
    originals: Callable[[Any], NDArray[Any] | None] | None,
) -> ClipCard:
    original = originals(clip) if originals is not None else None
    decoded = codec.decode(beginning(clip, array)).numpy(force=True) if codec is not None else None
    if original is not None and decoded is not None:
        original = original[:, : decoded.shape[1]]
    return ClipCard(
        id=clip.id,
        seconds=clip.seconds,
        array=clip.array,
        codebook_size=array.codebook_size,
        caption=clip.caption,
        metadata=clip.metadata,
        original=None if original is None else Sound(original, array.sample_rate),
        decoded=None if decoded is None else Sound(decoded, array.sample_rate),
    )


def beginning(clip: PageClip, array: ArrayDescription, limit_seconds: float = 4 * PLAYER_SECONDS) -> Beginning:
    """Take the first minute of a long clip; shorter clips, and those with a loudness per chunk, stay whole."""
    if clip.num_samples <= limit_seconds * array.sample_rate or clip.scales is not None:
        return Beginning(clip.array, clip.num_samples, clip.scales)
    num_samples = round(limit_seconds * array.sample_rate)
    num_frames = int(np.ceil(limit_seconds * array.frame_rate)) + 1
    return Beginning(clip.array[:num_frames], num_samples)
