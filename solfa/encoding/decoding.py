"""From a dataset back to audio: decode clips to files, and find the recordings they came from."""

from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from solfa.audio.reader import read_span
from solfa.audio.recording import AudioInfo
from solfa.audio.sources.choice import locate
from solfa.audio.writer import write_audio
from solfa.codecs.protocol import Codec
from solfa.errors import AudioError, StoreError
from solfa.store.dataset import Dataset
from solfa.store.shard_reader import Clip


class DecodeReport(NamedTuple):
    """What was written."""

    clips: int
    seconds: float
    skipped: int
    """Files that already existed."""


def decode_dataset(
    dataset: Dataset,
    codec: Codec,
    out: str | Path,
    *,
    extension: str = ".wav",
    on_clip: Callable[[int, int], None] = lambda done, total: None,
) -> DecodeReport:
    """Decode every clip to an audio file named after its id; existing files are kept, so it can be repeated.

    >>> import solfa
    >>> from solfa.encoding import decode_dataset
    >>> dataset = solfa.open_dataset("music.solfa")
    >>> decode_dataset(dataset[:2], solfa.load_codec(dataset.info.codec), "decoded/").clips
    2
    """
    out = Path(out)
    check_codec(dataset, codec)
    written, skipped, seconds = 0, 0, 0.0
    for index, clip in enumerate(dataset):
        path = out / file_name(clip.id, extension)
        if path.exists():
            skipped += 1
        else:
            audio = codec.decode(clip).float().cpu().numpy()
            write_audio(path, audio, codec.sample_rate)
            written += 1
            seconds += clip.seconds
        on_clip(index + 1, len(dataset))
    return DecodeReport(written, seconds, skipped)


def check_codec(dataset: Dataset, codec: Codec) -> None:
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


def file_name(clip_id: str, extension: str) -> PurePosixPath:
    """Name the file of a clip, always below the output folder: `a/b.flac` becomes `a/b.flac.wav`."""
    parts = [part for part in clip_id.split("/") if part not in ("", ".", "..")]
    path = PurePosixPath(*(parts or ["clip"]))
    return path if path.suffix.lower() == extension else path.with_name(path.name + extension)


def originals(source_root: Path, codec: Codec) -> Callable[[Clip], np.ndarray[Any, Any] | None]:
    """Make a function that reads a clip's recording at the codec's rate, or returns None if it is not there."""

    def read(clip: Clip) -> np.ndarray[Any, Any] | None:
        source = clip.source
        if source["member"] is not None or not source["uri"]:
            return None
        location = locate(source_root, source["uri"])
        info = AudioInfo(source["sample_rate"], source["num_channels"], source["num_samples"], source["format"])
        if not location.path.is_file():
            return None
        try:
            return read_span(location, info, source["start"], source["stop"], codec.sample_rate, codec.num_channels)
        except AudioError as error:
            raise StoreError(f"{location.path}: is not the recording that was encoded ({error})") from None

    return read
