"""Try a codec in fewer bits on some of the audio: what it gains and what it changes, before anything is encoded."""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from solfa.audio.channels import Audio
from solfa.audio.probe import probe_recording
from solfa.audio.reader import read_span
from solfa.audio.recording import AudioSource
from solfa.audio.sources.choice import open_source
from solfa.audio.sources.location import locate_recording
from solfa.codecs.catalogue import Precision, load_codec
from solfa.codecs.protocol import Codec, Encoded
from solfa.encoding.placement import one_thread
from solfa.environment.bf16 import probe_bf16
from solfa.errors import AudioError, ConfigError
from solfa.ops.mel_spectrogram import decibels, mel_spectrogram

_CLIPS, _SECONDS = 4, 10.0
"""How many recordings are tried, and how much of each: as many as EnCodec's LSTM takes at once."""


class PrecisionTrial(NamedTuple):
    """How a codec in another precision compares with fp32 on the same clips."""

    precision: Precision
    clips: int
    seconds: float
    speed: float
    """How many times as fast it encodes, by CPU time."""
    changed: float
    """The share of codes that are others; of latents, the size of the difference, as a share of theirs."""
    distance_db: float
    fp32_distance_db: float
    """How far decoded audio is from the original, as the mean difference of 96 mel bands; what fp32 decodes to, too."""


def try_precision(source: str | Path | AudioSource, codec: str, precision: Precision) -> PrecisionTrial:
    """Encode up to 40 s of a source with a codec in fp32 and in another precision, on the CPU, and compare.

    >>> from solfa.encoding import try_precision
    >>> trial = try_precision("audio/", "solfa_24khz", "fp32")  # or bf16, with a codec that can
    >>> trial.clips > 0, trial.changed, trial.distance_db == trial.fp32_distance_db
    (True, 0.0, True)
    """
    if precision == "bf16" and not probe_bf16():
        raise ConfigError("precision bf16: a test crashed on this processor; use fp32, and see `solfa doctor`")
    found = open_source(source) if isinstance(source, str | Path) else source
    exact, rounded = load_codec(codec), load_codec(codec, precision=precision)
    clips = list(islice(_excerpts(found, exact), _CLIPS))
    if not clips:
        raise ConfigError(f"{found.root}: expected audio of at least a second to try the codec on, found none")
    batch = torch.from_numpy(np.stack(clips))
    with one_thread():
        arrays, seconds = zip(*(_encode(one, batch) for one in (exact, rounded)), strict=True)
        decoded = [exact.decode(encoded).float().numpy() for encoded in arrays]
    before, after = (encoded.array.float() for encoded in arrays)
    changed = (before != after).float().mean() if exact.kind == "codes" else (before - after).norm() / before.norm()
    distances = [float(np.mean([_distance(*pair, exact) for pair in zip(clips, one, strict=True)])) for one in decoded]
    audio_seconds = batch.shape[-1] * len(clips) / exact.sample_rate
    speed = seconds[0] / seconds[1]
    return PrecisionTrial(precision, len(clips), audio_seconds, speed, float(changed), distances[1], distances[0])


def _excerpts(source: AudioSource, codec: Codec) -> Iterator[Audio]:
    """Read the beginnings of recordings, all of one length: that of the first that has a second at least."""
    num_samples = 0
    for recording in source.recordings():
        info = probe_recording(source.root, recording)
        if isinstance(info, str) or info.num_samples < info.sample_rate:
            continue
        stop = min(info.num_samples, round(_SECONDS * info.sample_rate))
        try:
            location = locate_recording(source.root, recording)
            audio = read_span(location, info, 0, stop, codec.sample_rate, codec.num_channels)
        except AudioError:
            continue  # encoding it will say what is wrong with it
        num_samples = num_samples or audio.shape[1]
        if audio.shape[1] >= num_samples:
            yield audio[:, :num_samples]


def _encode(codec: Codec, batch: torch.Tensor) -> tuple[Encoded, float]:
    codec.encode(batch[:1])  # the first call prepares
    began = time.process_time()
    encoded = codec.encode(batch)
    return encoded, time.process_time() - began


def _distance(original: Audio, decoded: Audio, codec: Codec) -> float:
    levels = [decibels(mel_spectrogram(one.mean(axis=0), codec.sample_rate), -80.0) for one in (original, decoded)]
    return float(np.abs(levels[0] - levels[1]).mean())
