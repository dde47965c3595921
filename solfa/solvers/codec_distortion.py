"""What the codec of a run's data loses: stored clips decoded, beside the recordings that they were encoded from.

Bits per second say nothing without it, and a dataset does not hold the recordings: `evaluate.originals` says where they
are.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from solfa.audio.probe import probe
from solfa.audio.reader import read_span
from solfa.audio.recording import AudioInfo, Location
from solfa.audio.sources.choice import open_source
from solfa.audio.sources.location import locate_recording
from solfa.codecs.protocol import Codec
from solfa.data.sources.clip_source import SourceClip
from solfa.data.sources.stage_source import OpenedSource
from solfa.data.table.joined_clips import JoinedClip
from solfa.errors import AudioError, ConfigError
from solfa.ops.audio_metrics import batch_mel_distance_db, si_sdr
from solfa.solvers.config import EvaluateConfig
from solfa.solvers.judge import ArrayOfClip, judged_size
from solfa.spelling import plural
from solfa.store.shard_reader import Clip

log = logging.getLogger(__name__)

AsCounted = Callable[[NDArray[Any]], NDArray[Any]]
"""Turns a stored array into what the bits were counted of."""


class Original(NamedTuple):
    """A stored clip, and where the recording is that it was encoded from."""

    clip: Clip
    location: Location
    info: AudioInfo


def expect_originals(config: EvaluateConfig, source: OpenedSource | None) -> None:
    """Refuse, before anything is trained, a place that does not have the recordings."""
    if config.originals is None:
        return
    if "bits" not in (config.metrics or ()):
        raise ConfigError("evaluate.originals: it is for `bits`; add bits to evaluate.metrics, or leave it out")
    if source is not None:
        find_originals(_judged_clips(source, config), config.originals)


def measure_distortion(
    source: OpenedSource, config: EvaluateConfig, codec: Callable[[], Codec], as_counted: AsCounted
) -> dict[str, float]:
    """Measure what the codec of a source loses; say that it is unknown if nobody said where the recordings are."""
    if config.originals is None:
        log.warning(
            "what the codec %s loses is unknown, so bits_per_second cannot be compared with those of other codecs: set "
            "evaluate.originals to the audio that the evaluate dataset was encoded from, or use `solfa evaluate`",
            source.codec,
        )
        return {}
    originals = find_originals(_judged_clips(source, config), config.originals)
    return codec_distortion(originals, codec(), judged_size(config)[1], as_counted)


def _judged_clips(source: OpenedSource, config: EvaluateConfig) -> list[SourceClip]:
    return [source[index] for index in range(min(judged_size(config)[0], len(source)))]


def find_originals(clips: Sequence[SourceClip], place: str) -> list[Original]:
    """Find the recordings of clips among those of `place`, by key and length; refuse a place that has none."""
    source = open_source(place)
    recordings = {recording.key: recording for recording in source.recordings()}
    found, reasons = [], []
    for given in clips:
        clip = given.clip if isinstance(given, JoinedClip) else given
        if not isinstance(clip, Clip):
            reasons.append(f"{clip.id}: is not stored in a dataset")
            continue
        recording = recordings.get(clip.source["key"])
        if recording is None:
            reasons.append(f"{clip.source['key']}: is not there")
            continue
        location = locate_recording(source.root, recording)
        try:
            info = probe(location)
        except (AudioError, OSError) as error:
            reasons.append(f"{clip.source['key']}: {error}")
            continue
        if (info.sample_rate, info.num_samples) != (clip.source["sample_rate"], clip.source["num_samples"]):
            reasons.append(f"{clip.source['key']}: is another recording, of {info.num_samples:,} samples")
        else:
            found.append(Original(clip, location, info))
    if not found:
        raise ConfigError(
            f"evaluate.originals: expected the audio that the evaluate dataset was encoded from, found none of "
            f"{plural(len(clips), 'clip')} in {place} ({reasons[0]}); pass that audio, or leave it out"
        )
    if reasons:
        log.warning("evaluate.originals: %s of %d left out (%s)", len(reasons), len(clips), reasons[0])
    return found


def codec_distortion(
    originals: Sequence[Original], codec: Codec, seconds: float, as_counted: AsCounted
) -> dict[str, float]:
    """Compare the beginnings of decoded clips with those of their recordings."""
    length = round(seconds * codec.sample_rate)
    mel, ratio = [], []
    for clip, location, info in originals:
        span = clip.source["start"], clip.source["stop"]
        audio = torch.from_numpy(read_span(location, info, *span, codec.sample_rate, codec.num_channels))
        stored = ArrayOfClip(as_counted(clip.array), clip.num_samples, clip.scales)
        decoded = _beginning(codec.decode(stored).float().cpu(), length)
        audio = _beginning(audio, length)
        mel.append(float(batch_mel_distance_db(decoded, audio, codec.sample_rate)))
        ratio.append(float(si_sdr(decoded.flatten(1), audio.flatten(1))))
    return {"codec_mel_db": float(np.mean(mel)), "codec_si_sdr_db": float(np.nanmean(ratio))}


def _beginning(audio: Float[Tensor, "C N"], length: int) -> Float[Tensor, "1 C n"]:
    return audio[None, :, :length]
