"""From a dataset back to audio: decode clips to files, and find the recordings they came from."""

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from solfa.audio.reader import read_span
from solfa.audio.recording import AudioInfo
from solfa.audio.sources.choice import locate
from solfa.audio.writer import write_audio
from solfa.errors import AudioError, StoreError
from solfa.files.free_folder import expect_no_broken_link
from solfa.files.id_names import tree_name
from solfa.files.whole_files import expect_real_way
from solfa.store.dataset import Dataset
from solfa.store.shard_reader import Clip

if TYPE_CHECKING:  # reading recordings needs no torch
    from solfa.codecs.protocol import Codec


class DecodeReport(NamedTuple):
    """What was written."""

    clips: int
    seconds: float
    skipped: int
    """Files that already existed."""


def decode_dataset(
    dataset: Dataset,
    codec: "Codec",
    out: str | Path,
    *,
    extension: str = ".wav",
    whole: bool = False,
    on_clip: Callable[[int, int], None] = lambda done, total: None,
) -> DecodeReport:
    """Decode every clip to an audio file named after its id; existing files are kept, so it can be repeated.

    With `whole`, the consecutive clips of a recording are joined to one file, named after the recording.

    >>> import solfa
    >>> from solfa.encoding import decode_dataset
    >>> dataset = solfa.open_dataset("music.solfa")
    >>> decode_dataset(dataset[:2], solfa.load_codec(dataset.info.codec), "decoded/").clips
    2
    """
    out = Path(out)
    expect_no_broken_link(out, "choose another `out`")
    check_codec(dataset, codec)
    pieces = recordings_of(dataset) if whole else _clips_of(dataset)
    names = file_names(pieces, extension)
    written, skipped, seconds, done = 0, 0, 0.0, 0
    for name, rows in pieces.items():
        path = out / names[name]
        expect_real_way(out, path.parent)
        if path.exists():
            skipped += 1
        else:
            write_audio(path, np.concatenate([_decode(dataset[row], codec) for row in rows], axis=1), codec.sample_rate)
            written += 1
            seconds += sum(dataset[row].seconds for row in rows)
        done += len(rows)
        on_clip(done, len(dataset))
    return DecodeReport(written, seconds, skipped)


def _clips_of(dataset: Dataset) -> dict[str, list[int]]:
    """Find the row of each clip; an id that occurs twice is an error, because one file cannot hold both."""
    rows = {clip_id: [row] for row, clip_id in enumerate(dataset.ids())}
    if len(rows) < len(dataset):
        (twin, times), *_ = Counter(dataset.ids()).most_common(1)
        raise StoreError(f"{dataset.path}: {times} clips are called {twin!r}; `solfa verify` says what is wrong")
    return rows


def recordings_of(dataset: Dataset) -> dict[str, list[int]]:
    """Find the rows of each recording's clips in order of time; a recording with a missing part is an error."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for row, clip in enumerate(dataset):
        source = clip.source
        found.setdefault(source["key"], []).append((source["start"], source["stop"], row))
    for key, parts in found.items():
        parts.sort()
        starts, stops = [part[0] for part in parts], [part[1] for part in parts]
        if starts != [0, *stops[:-1]]:
            missing = next(stop for stop, start in zip([0, *stops], starts, strict=False) if stop != start)
            raise StoreError(
                f"{dataset.path}: recording {key!r} has no clip from sample {missing} on, so it cannot be joined; "
                "decode its clips one by one"
            )
    return {key: [row for _, _, row in parts] for key, parts in found.items()}


def _decode(clip: Clip, codec: "Codec") -> np.ndarray[Any, Any]:
    clip.check()
    audio: np.ndarray[Any, Any] = codec.decode(clip).float().cpu().numpy()
    return audio


def check_codec(dataset: Dataset, codec: "Codec") -> None:
    """Refuse to decode with a codec whose arrays look different from those of the dataset."""
    spec = dataset.info.array
    expected = (spec.kind, spec.width, spec.codebook_size, spec.sample_rate, spec.num_channels)
    width = codec.num_codebooks if codec.kind == "codes" else codec.latent_channels
    found = (codec.kind, width, codec.codebook_size, codec.sample_rate, codec.num_channels)
    if expected != found:
        raise StoreError(
            f"{dataset.path}: expected the codec that made it ({dataset.info.codec}: {_spell(expected)}), "
            f"found {codec.name}: {_spell(found)}"
        )


def _spell(facts: tuple[Any, ...]) -> str:
    kind, width, codebook_size, sample_rate, num_channels = facts
    size = f" of {codebook_size}" if codebook_size else ""
    return f"{width} {kind}{size}, {sample_rate} Hz, {num_channels} channels"


def file_names(ids: Iterable[str], extension: str) -> dict[str, PurePosixPath]:
    """Name a file for each id, always below the output folder: `a/b.flac` becomes `a/b.flac.wav`, `a.wav` stays.

    Of two ids that would get the same name, the one that already ends in the extension gets it once more, and so does
    a file that would be in the place of another one's folder. Names that differ only in upper and lower case, or in
    how an accent is written, count as the same: on some file systems they are.
    """
    plain = {clip_id: tree_name(clip_id) for clip_id in ids}
    extended = {_folded(name + extension) for name in plain.values() if not name.lower().endswith(extension)}
    names = {
        clip_id: name if name.lower().endswith(extension) and _folded(name) not in extended else name + extension
        for clip_id, name in plain.items()
    }
    taken = {_folded(str(folder)) for name in names.values() for folder in PurePosixPath(name).parents}
    for clip_id, name in sorted(names.items()):
        while _folded(name) in taken:
            name += extension
        names[clip_id] = name
        taken.add(_folded(name))
    return {clip_id: PurePosixPath(name) for clip_id, name in names.items()}


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


class Sampling(Protocol):
    """The form of a waveform: a codec's, or that of a dataset's arrays."""

    @property
    def sample_rate(self) -> int: ...
    @property
    def num_channels(self) -> int: ...


def originals(source_root: Path, codec: Sampling) -> Callable[[Clip], np.ndarray[Any, Any] | None]:
    """Make a function that reads a clip's recording at the codec's rate, or returns None if it is not there."""

    def read(clip: Clip) -> np.ndarray[Any, Any] | None:
        source = clip.source
        if source["member"] is not None or not source["uri"]:
            return None
        location = locate(source_root, source["uri"])
        # A dataset of somebody else does not choose which other files of yours are shown.
        if not isinstance(location.path, Path):
            return None
        if not Path(os.path.normpath(location.path)).is_relative_to(os.path.normpath(source_root)):
            return None
        info = AudioInfo(source["sample_rate"], source["num_channels"], source["num_samples"], source["format"])
        if not location.path.is_file():
            return None
        try:
            return read_span(location, info, source["start"], source["stop"], codec.sample_rate, codec.num_channels)
        except AudioError as error:
            raise StoreError(f"{location.path}: is not the recording that was encoded ({error})") from None

    return read
