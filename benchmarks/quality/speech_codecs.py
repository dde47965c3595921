"""Codecs made for speech, as anchors: Codec2 (parameters of a voice) and Lyra V2 (a small SoundStream).

Codec2 are the programs c2enc and c2dec of the Debian package codec2. Lyra V2 are the three networks
`soundstream_encoder.tflite`, `quantizer.tflite` and `lyragan.tflite` of github.com/google/lyra, in one folder, run by
`pip install ai-edge-litert`. Codec2 delays and keeps no waveform, so both are brought in time by their loudness.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from solfa.errors import ConfigError

from .clips import SAMPLE_RATE, Kind, Mono
from .competitors import Rendition, System, run, workspace
from .metrics import find_lag, resample, shift

CODEC2_RATE, LYRA_RATE = 8_000, 16_000
LYRA_HOP = 320
LYRA_FRAMES_PER_SECOND = LYRA_RATE / LYRA_HOP
LYRA_BITS, LYRA_QUANTIZERS = 4, 46
"""Bits per quantizer, and how many there are."""
LYRA_FILES = ("soundstream_encoder.tflite", "quantizer.tflite", "lyragan.tflite")
MAX_LAG = 4_800
"""Samples at 48 kHz: 100 ms."""
SMOOTHING = 480
"""Samples at 48 kHz over which loudness is averaged."""


@dataclass(frozen=True)
class Codec2:
    """c2enc and c2dec at one of their fixed rates, in bits per second."""

    bits_per_second: int

    @property
    def name(self) -> str:
        return f"Codec2 {self.bits_per_second / 1000:g}"

    @property
    def family(self) -> str:
        return "Codec2"

    def identity(self) -> Mapping[str, object]:
        return {"codec2": self.bits_per_second}

    def render(self, reference: Mono) -> Rendition:
        with workspace(reference) as (_, folder):
            source, stream, result = folder / "reference.raw", folder / "stream.bin", folder / "decoded.raw"
            to_int16(resample(reference, SAMPLE_RATE, CODEC2_RATE)).tofile(source)
            run("c2enc", self.bits_per_second, source, stream)
            run("c2dec", self.bits_per_second, stream, result)
            audio = np.fromfile(result, "<i2").astype(np.float32) / 32768
        return in_time_by_loudness(audio, CODEC2_RATE, reference, self.bits_per_second / 1000)


@dataclass(frozen=True)
class Lyra:
    """Lyra V2 with as many of its quantizers as a rate allows: 16 at 3.2 kbit/s, 30 at 6, 46 at 9.2."""

    folder: Path
    num_quantizers: int

    @property
    def kbit(self) -> float:
        return self.num_quantizers * LYRA_BITS * LYRA_FRAMES_PER_SECOND / 1000

    @property
    def name(self) -> str:
        return f"Lyra V2 {self.kbit:g}"

    @property
    def family(self) -> str:
        return "Lyra V2"

    def identity(self) -> Mapping[str, object]:
        digests = [hashlib.sha256((self.folder / name).read_bytes()).hexdigest() for name in LYRA_FILES]
        return {"lyra": digests, "quantizers": self.num_quantizers}

    def render(self, reference: Mono) -> Rendition:
        encoder, quantizer, decoder = lyra_networks(self.folder)
        audio = resample(reference, SAMPLE_RATE, LYRA_RATE)
        hops = np.pad(audio, (0, -len(audio) % LYRA_HOP)).reshape(-1, 1, LYRA_HOP)
        quantize, restore = quantizer.get_signature_runner("encode"), quantizer.get_signature_runner("decode")
        for network in (encoder, decoder):  # they remember what they heard
            network.reset_all_variables()
        decoded = []
        for hop in hops:
            features = invoke(encoder, hop).reshape(1, 1, -1)
            codes = quantize(input_frames=features, num_quantizers=np.int32(self.num_quantizers))["output_0"]
            kept = np.full((LYRA_QUANTIZERS, 1, 1), -1, np.int32)
            kept[: self.num_quantizers] = codes.reshape(-1, 1, 1)[: self.num_quantizers]
            decoded.append(invoke(decoder, restore(encoding_indices=kept)["output_0"]).reshape(-1))
        return in_time_by_loudness(np.concatenate(decoded), LYRA_RATE, reference, self.kbit)


def is_for(system: System, kind: Kind) -> bool:
    """Tell whether a system is to be measured on a kind of sound: those made for speech on speech alone."""
    return kind == "speech" or not isinstance(system, Codec2 | Lyra)


def lyra_systems(folder: Path | None) -> list[Lyra]:
    """List Lyra's three rates; none without its folder."""
    if folder is None:
        return []
    missing = [name for name in LYRA_FILES if not (folder / name).is_file()]
    if missing:
        raise ConfigError(
            f"{folder}: expected {', '.join(LYRA_FILES)} of github.com/google/lyra, found no {missing[0]}"
        )
    return [Lyra(folder, num_quantizers) for num_quantizers in (16, 30, LYRA_QUANTIZERS)]


@cache
def lyra_networks(folder: Path) -> list[Any]:
    """Load the three networks once in every process."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        raise ConfigError("the package ai-edge-litert, which runs Lyra, is missing; pip install it") from None
    networks = [Interpreter(str(folder / name), num_threads=1) for name in LYRA_FILES]
    for network in networks:
        network.allocate_tensors()
    return networks


def invoke(network: Any, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Run a network with one input and one output."""
    shape = network.get_input_details()[0]["shape"]
    network.set_tensor(network.get_input_details()[0]["index"], values.reshape(shape).astype(np.float32))
    network.invoke()
    result: np.ndarray[Any, Any] = network.get_tensor(network.get_output_details()[0]["index"])
    return result


def in_time_by_loudness(audio: Mono, rate: int, reference: Mono, kbit_per_second: float) -> Rendition:
    """Move a sound to where its loudness follows that of the reference."""
    audio = resample(audio, rate, SAMPLE_RATE)
    lag = find_lag(loudness(audio), loudness(reference), MAX_LAG)
    return Rendition(shift(audio, lag, len(reference)), SAMPLE_RATE, kbit_per_second, lag)


def loudness(audio: Mono) -> Mono:
    """Average the magnitude around each sample, without its mean."""
    smooth = np.convolve(np.abs(audio), np.full(SMOOTHING, 1 / SMOOTHING), mode="same")
    return np.asarray(smooth - smooth.mean(), np.float32)


def to_int16(audio: Mono) -> np.ndarray[Any, np.dtype[np.int16]]:
    """Round to 16 bits."""
    return np.round(np.clip(audio, -1, 32767 / 32768) * 32768).astype("<i2")
