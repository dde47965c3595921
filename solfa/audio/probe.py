"""Look at a recording: rate, channels, and exactly as many samples as reading it will deliver."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from solfa.audio.decoders import plain_wav, pyav, sndfile
from solfa.audio.decoders.byte_range import ByteRange, open_range
from solfa.audio.file_types import AV_EXTENSIONS
from solfa.audio.recording import AudioInfo, Location, Recording
from solfa.audio.sources.location import locate_file, locate_recording
from solfa.errors import AudioError
from solfa.files.chunks import chunks
from solfa.files.stores.place import Place, is_url

MAX_SAMPLES_PER_BYTE = 8192
"""No codec is denser: FLAC's constant blocks hold 4,681 samples per byte of silence."""
MIN_SAMPLE_RATE, MAX_SAMPLE_RATE = 1_000, 1_536_000
MAX_CHANNELS = 256
PROBES_AT_ONCE = 8
PROBES_PER_TASK = 32
"""To pass one file of this machine to a thread takes longer than to look at it."""
FAR_PROBES_AT_ONCE = 64
"""In an object store, where a probe is two or three requests and most of a request is waiting."""
RECORDINGS_PER_CHUNK = 512

Probed = tuple[Recording, AudioInfo | str]
"""A recording, and what it is or the sentence that becomes its failed row."""


def probe(location: Location) -> AudioInfo:
    """Read a recording's header; refuse, with a reason, what cannot be read or cannot be true."""
    with open_range(location) as file:
        info = plain_wav.measure(file) or (pyav.measure(file) if _needs_av(file, location) else sndfile.measure(file))
        fault = _fault(info, file.size)
        if fault is not None:
            raise AudioError(fault)
        return info


def _needs_av(file: ByteRange, location: Location) -> bool:
    """Decide by content first: `ftyp` opens MP4 and its kin, 1A 45 DF A3 opens Matroska and webm."""
    head = file.bytes_at(0, 12)
    if head[4:8] == b"ftyp" or head[:4] == b"\x1a\x45\xdf\xa3":
        return True
    known = head[:4] in (b"RIFF", b"RF64", b"FORM", b"fLaC", b"OggS") or head[:3] == b"ID3"
    return location.format_hint in AV_EXTENSIONS and not known


def _fault(info: AudioInfo, num_bytes: int) -> str | None:
    if info.num_samples <= 0:
        return "has 0 samples"
    if info.num_samples > MAX_SAMPLES_PER_BYTE * num_bytes:
        return f"its header claims {info.num_samples:,} samples, which {num_bytes:,} bytes cannot hold"
    if not MIN_SAMPLE_RATE <= info.sample_rate <= MAX_SAMPLE_RATE:
        return f"its sample rate of {info.sample_rate:,} Hz is not between {MIN_SAMPLE_RATE:,} and {MAX_SAMPLE_RATE:,}"
    if info.num_channels > MAX_CHANNELS:
        return f"has {info.num_channels} channels, more than {MAX_CHANNELS}"
    return None


def probe_audio(path: str | Path) -> AudioInfo:
    """Read the header of an audio file: rate, channels, and exactly as many samples as reading it will deliver.

    >>> from solfa.audio import probe_audio
    >>> probe_audio("audio/guitar.wav")
    AudioInfo(sample_rate=44100, num_channels=2, num_samples=132300, format='WAV/PCM_16')
    """
    try:
        return probe(locate_file(path))
    except AudioError as error:
        raise AudioError(f"{path}: {error}") from None


def probe_recording(root: Place, recording: Recording) -> AudioInfo | str:
    """Probe a recording of a source whose root is `root`; if it cannot be read, return the reason.

    >>> from solfa.audio import open_source, probe_recording
    >>> source = open_source("audio/")
    >>> {recording.key: probe_recording(source.root, recording) for recording in source.recordings()}["broken.wav"]
    'cannot be decoded: Format not recognised'
    """
    if recording.error is not None:
        return recording.error
    try:
        return probe(locate_recording(root, recording))
    except AudioError as error:
        return str(error)


def probe_in_chunks(root: Place, recordings: Iterable[Recording]) -> Iterator[Iterator[Probed]]:
    """Probe many recordings in their order, some at once; of a chunk nothing is opened before it is gone through."""
    # A pool starts its threads when it is used.
    with (
        ThreadPoolExecutor(PROBES_AT_ONCE, thread_name_prefix="probe") as near,
        ThreadPoolExecutor(FAR_PROBES_AT_ONCE, thread_name_prefix="probe") as far,
    ):
        for chunk in chunks(recordings, RECORDINGS_PER_CHUNK):
            is_near = isinstance(root, Path) and not is_url(chunk[0].uri)
            yield _probed(near, root, chunk, PROBES_PER_TASK) if is_near else _probed(far, root, chunk, 1)


def _probed(pool: Executor, root: Place, chunk: list[Recording], per_task: int) -> Iterator[Probed]:
    tasks = list(chunks(chunk, per_task))
    for some, infos in zip(tasks, pool.map(partial(_probe_each, root), tasks), strict=True):
        yield from zip(some, infos, strict=True)


def _probe_each(root: Place, recordings: list[Recording]) -> list[AudioInfo | str]:
    return [probe_recording(root, recording) for recording in recordings]
