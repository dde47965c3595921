"""Read a span of a recording as float32, at the requested sample rate and channels."""

from pathlib import Path

import numpy as np

from solfa.audio.channels import Audio, distinct_channels, to_channels
from solfa.audio.decoders import plain_wav, pyav, sndfile
from solfa.audio.decoders.byte_range import open_range
from solfa.audio.probe import probe
from solfa.audio.recording import AudioInfo, Location
from solfa.audio.resampler import resample_span, resampled_span, source_margin
from solfa.audio.sources.location import locate_file
from solfa.errors import AudioError, ConfigError


def read_audio(
    path: str | Path,
    *,
    sample_rate: int | None = None,
    num_channels: int | None = None,
    start_seconds: float = 0.0,
    seconds: float | None = None,
) -> Audio:
    """Decode an audio file, or some seconds of it, as float32 `[C, N]`.

    Rate and channels are the file's own unless given; nothing is clamped or normalised.

    >>> from solfa.audio import read_audio
    >>> read_audio("audio/guitar.wav", sample_rate=24_000, num_channels=1, seconds=1.5).shape
    (1, 36000)
    """
    location = locate_file(path)
    try:
        info = probe(location)
        start = round(start_seconds * info.sample_rate)
        if not 0 <= start < info.num_samples or (seconds is not None and seconds <= 0):
            found = f"start_seconds {start_seconds:g} and seconds {seconds}"
            raise ConfigError(
                f"{path}: expected a span within {info.num_samples / info.sample_rate:.3f} s, found {found}"
            )
        stop = info.num_samples if seconds is None else start + max(1, round(seconds * info.sample_rate))
        rate, channels = sample_rate or info.sample_rate, num_channels or info.num_channels
        return read_span(location, info, start, min(stop, info.num_samples), rate, channels)
    except AudioError as error:
        raise AudioError(f"{path}: {error}") from None


def read_span(location: Location, info: AudioInfo, start: int, stop: int, sample_rate: int, num_channels: int) -> Audio:
    """Decode source samples `start` to `stop` as `[C, N]`.

    N is what `resampled_span` says. Nothing is clamped or normalised. Memory covers the span and a short margin, no
    matter how long the recording is.

    >>> from pathlib import Path
    >>> from solfa.audio import Location, probe_audio, read_span
    >>> path = Path("audio/guitar.wav")
    >>> info = probe_audio(path)
    >>> read_span(Location(path), info, 0, info.num_samples // 3, sample_rate=24_000, num_channels=1).shape
    (1, 24000)
    """
    if not 0 <= start < stop <= info.num_samples:
        raise ValueError(f"samples {start}..{stop} are not within the {info.num_samples} samples of the recording")
    low, high = source_margin(start, stop, info.num_samples, info.sample_rate, sample_rate)
    audio = _decode(location, info, low, high)
    audio = distinct_channels(audio, num_channels)
    audio = resample_span(audio, low, start, stop, info.sample_rate, sample_rate)
    first, last = resampled_span(start, stop, info.sample_rate, sample_rate)
    assert audio.shape[1] == last - first, (audio.shape, first, last)
    return np.ascontiguousarray(to_channels(audio, num_channels))


def _decode(location: Location, info: AudioInfo, start: int, stop: int) -> Audio:
    decoder = pyav if info.format.startswith(pyav.PREFIX) else sndfile
    with open_range(location, share=(stop - start) / info.num_samples) as file:
        try:
            plain = plain_wav.decode(file, info, start, stop)
            samples = decoder.decode(file, info, start, stop) if plain is None else plain
        except AudioError as error:
            raise AudioError(f"damaged or truncated between samples {start:,} and {stop:,}: {error}") from None
    if len(samples) < stop - start:
        raise AudioError(f"truncated: the header says {info.num_samples:,} samples, found {start + len(samples):,}")
    if samples.shape[1] != info.num_channels:
        raise AudioError(f"changed since it was probed: {info.num_channels} channels then, {samples.shape[1]} now")
    if not np.isfinite(samples).all():
        position = start + int(np.argmin(np.isfinite(samples).all(axis=1)))
        raise AudioError(f"sample {position:,} is not a finite number")
    audio: Audio = samples.T
    return audio
