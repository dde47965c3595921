"""What is compared: codecs of Solfa, Opus, MP3, the band limit alone, and a control.

Each takes a reference at 48 kHz and gives what a listener gets back, in time with it, and the bit rate of the stream:
the bits of its packets (not of the container, whose share depends on the file) over the time that they last.
"""

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import log2
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import soundfile
import torch

from solfa.audio import Location, to_channels
from solfa.audio.decoders.byte_range import ByteRange, open_range
from solfa.audio.decoders.mpeg import after_header, count_frames, first_frame, parse_frame
from solfa.audio.decoders.ogg import read_page
from solfa.codecs import Codec, load_codec
from solfa.codecs.protocol import decoding_fingerprint
from solfa.errors import ConfigError

from .clips import SAMPLE_RATE, Mono
from .metrics import find_lag, resample, shift

OPUS_MAX_LAG = 10
"""Samples at 48 kHz: opusdec undoes the delay of the encoder but for a few samples of its resampler."""
MP3_MAX_LAG = 12_000
"""LAME delays by 1,105 samples at the rate that it chooses, which at 8 kHz are 6,630 here."""
MULAW_RATES = (8_000, 16_000, 24_000)


class Rendition(NamedTuple):
    """A clip after a system."""

    audio: Mono
    sample_rate: int
    kbit_per_second: float | None
    """None where there is no stream of bits."""
    lag_samples: int = 0
    """At 48 kHz, already undone."""


class System(Protocol):
    """Something that a sound goes through."""

    @property
    def name(self) -> str: ...
    @property
    def family(self) -> str:
        """What the settings of one system have in common: a line in the chart."""
        ...

    def identity(self) -> Mapping[str, object]:
        """Everything that its output depends on, in plain values."""
        ...

    def render(self, reference: Mono) -> Rendition: ...


@dataclass(frozen=True)
class BandLimit:
    """The reference at a lower rate and back: the best that any codec of that rate can do."""

    sample_rate: int

    @property
    def name(self) -> str:
        return f"{self.sample_rate / 1000:g} kHz"

    @property
    def family(self) -> str:
        return f"limit of {self.name}"

    def identity(self) -> Mapping[str, object]:
        return {"band_limit": self.sample_rate}

    def render(self, reference: Mono) -> Rendition:
        return Rendition(resample(reference, SAMPLE_RATE, self.sample_rate), self.sample_rate, None)


@dataclass(frozen=True)
class Backwards:
    """The reference at a lower rate, played backwards: a control. What a measure gives to this, it does not hear."""

    sample_rate: int

    @property
    def name(self) -> str:
        return f"backwards, {self.sample_rate / 1000:g} kHz"

    @property
    def family(self) -> str:
        return "control: backwards"

    def identity(self) -> Mapping[str, object]:
        return {"backwards": self.sample_rate}

    def render(self, reference: Mono) -> Rendition:
        audio = resample(reference, SAMPLE_RATE, self.sample_rate)
        return Rendition(np.ascontiguousarray(audio[::-1]), self.sample_rate, None)


@cache
def loaded(spec: str, num_codebooks: int | None) -> Codec:
    """Load a codec once in every process."""
    return load_codec(spec) if num_codebooks is None else load_codec(spec, num_codebooks=num_codebooks)


@dataclass(frozen=True)
class SolfaCodec:
    """A codec that Solfa can load, with all of its codebooks or the first few."""

    name: str
    family: str
    spec: str
    num_codebooks: int | None = None

    def identity(self) -> Mapping[str, object]:
        return {"codec": decoding_fingerprint(loaded(self.spec, self.num_codebooks))}

    def render(self, reference: Mono) -> Rendition:
        codec = loaded(self.spec, self.num_codebooks)
        audio = resample(reference, SAMPLE_RATE, codec.sample_rate)
        batch = torch.from_numpy(to_channels(audio[None], codec.num_channels))[None]
        decoded = codec.decode(codec.encode(batch))[0].mean(dim=0).cpu().numpy()
        return Rendition(decoded, codec.sample_rate, codec_kbit_per_second(codec))


def codec_kbit_per_second(codec: Codec) -> float | None:
    """Compute the rate of the codes as they are, each of log2(codebook size) bits; None for latents."""
    if codec.num_codebooks is None or codec.codebook_size is None:
        return None
    return codec.num_codebooks * log2(codec.codebook_size) * codec.frame_rate / 1000


def codec_systems(specs: Sequence[str], codebooks: Sequence[int]) -> list[SolfaCodec]:
    """List codecs at each number of codebooks, or as their specs say; those that share a name go by their specs."""
    names = [loaded(spec, codebooks[0] if codebooks else None).name for spec in specs]
    systems = []
    for spec, name in zip(specs, names, strict=True):
        family = name if names.count(name) == 1 else spec
        systems += [SolfaCodec(f"{family} × {number}", family, spec, number) for number in codebooks]
        systems += [] if codebooks else [SolfaCodec(family, family, spec)]
    return systems


def mulaw_systems() -> list[SolfaCodec]:
    """List mu-law with 8 bits at each of its rates."""
    return [
        SolfaCodec(f"mu-law {rate / 1000:g} kHz", "mu-law", f"mulaw:bits=8,sample_rate={rate}") for rate in MULAW_RATES
    ]


@dataclass(frozen=True)
class Opus:
    """opusenc as it comes: variable rate, its own choice of bandwidth, of speech or music, full complexity."""

    kbit: float

    @property
    def name(self) -> str:
        return f"Opus {self.kbit:g}"

    @property
    def family(self) -> str:
        return "Opus"

    def identity(self) -> Mapping[str, object]:
        return {"opus": self.kbit, "version": run("opusenc", "--version").splitlines()[0]}

    def render(self, reference: Mono) -> Rendition:
        with workspace(reference) as (source, folder):
            stream, result = folder / "stream.opus", folder / "decoded.wav"
            run("opusenc", "--quiet", "--bitrate", f"{self.kbit:g}", source, stream)
            run("opusdec", "--quiet", "--float", "--rate", SAMPLE_RATE, stream, result)
            return in_time(result, reference, stream, opus_kbit_per_second, OPUS_MAX_LAG)


@dataclass(frozen=True)
class Mp3:
    """LAME at a constant rate, with its own choice of sample rate and low-pass."""

    kbit: int

    @property
    def name(self) -> str:
        return f"MP3 {self.kbit}"

    @property
    def family(self) -> str:
        return "MP3"

    def identity(self) -> Mapping[str, object]:
        return {"mp3": self.kbit, "version": run("lame", "--version").splitlines()[0]}

    def render(self, reference: Mono) -> Rendition:
        with workspace(reference) as (source, folder):
            stream = folder / "stream.mp3"
            run("lame", "--quiet", "--cbr", "-b", self.kbit, "-m", "m", source, stream)
            return in_time(stream, reference, stream, mp3_kbit_per_second, MP3_MAX_LAG)


def in_time(
    decoded: Path, reference: Mono, stream: Path, kbit_per_second: Callable[[ByteRange], float], max_lag: int
) -> Rendition:
    """Read what was decoded, move it to where it fits the reference, and measure the stream."""
    audio, rate = soundfile.read(decoded, dtype="float32")
    audio = resample(audio, rate, SAMPLE_RATE)
    lag = find_lag(audio, reference, max_lag)
    with open_range(Location(stream)) as file:
        return Rendition(shift(audio, lag, len(reference)), SAMPLE_RATE, kbit_per_second(file), lag)


def opus_kbit_per_second(file: ByteRange) -> float:
    """Measure an Ogg Opus stream: its packets without pages and headers (RFC 7845), over the time until its end."""
    position, num_bytes, granule = 0, 0, 0
    while (page := read_page(file, position)) is not None:
        num_segments = file.bytes_at(position + 26, 1)[0]
        if page.granule != 0:  # the pages of the two headers say 0
            num_bytes += page.num_bytes - 27 - num_segments
            granule = max(granule, page.granule)
        position += page.num_bytes
    return 8 * num_bytes / granule * SAMPLE_RATE / 1000


def mp3_kbit_per_second(file: ByteRange) -> float:
    """Measure the frames of an MP3 file without LAME's first, which holds no sound, over the time that they last."""
    first = first_frame(file)
    assert first is not None, "LAME wrote no frame"
    start = after_header(file, first)
    frame = parse_frame(file.bytes_at(start, 4))
    assert frame is not None
    return 8 * (file.size - start) / (count_frames(file, start) * frame.num_samples / frame.sample_rate) / 1000


@contextmanager
def workspace(reference: Mono) -> Iterator[tuple[Path, Path]]:
    """Give a WAV file of the reference (24 bit) and the temporary folder that it lies in."""
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "reference.wav"
        soundfile.write(source, reference, SAMPLE_RATE, subtype="PCM_24")
        yield source, Path(name)


def run(program: str, *arguments: object) -> str:
    """Run one of the encoders or decoders, and return what it says."""
    try:
        command = [program, *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise ConfigError(
            f"the program {program} is not on the PATH; install opus-tools (Opus) and lame (MP3), e.g. by apt-get"
        ) from None
    except subprocess.CalledProcessError as error:
        raise ConfigError(f"{' '.join(command)}: ended with code {error.returncode}: {error.stderr.strip()}") from None
