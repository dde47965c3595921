"""A small real dataset, quickly: tones as files, their mu-law codes written through the store's own writer."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
import torch

from solfa.codecs import load_codec
from solfa.encoding.fingerprint import EncodeSettings, dataset_info
from solfa.store import Outcome, PlannedClip, append_arrays

RATE = 16_000
HOSTILE = '<script>document.title = "taken"</script><img src=x onerror="document.title = \'taken\'">\u202e&quot;'


class Tone(NamedTuple):
    """What a recording is, and what is said about it."""

    id: str
    seconds: float
    hz: float
    caption: str | None
    metadata: dict[str, Any]


TONES = (
    Tone("drums/a hit.wav", 0.4, 220.0, "A dry drum hit", {"bpm": 90, "genre": "jazz", "tags": ["dry", "short"]}),
    Tone("drums/b.wav", 0.7, 247.0, "A wet drum", {"bpm": 120, "genre": "techno"}),
    Tone(
        "flute & \u00e9tude.wav",
        1.2,
        880.0,
        "Une FL\u00dbTE",
        {"bpm": 60, "genre": "classical", "place": "Z\u00fcrich"},
    ),
    Tone("voice/\u97f3.wav", 0.9, 330.0, None, {"speaker": "Zo\u00eb"}),
    Tone("hostile.wav", 0.5, 440.0, HOSTILE, {HOSTILE: HOSTILE}),
)
FAILED = ("broken/file.mp3", "cannot be decoded: <b>no frame</b> found")


def write_audio(folder: Path) -> Path:
    """Write the recordings."""
    for tone in TONES:
        path = folder / tone.id
        path.parent.mkdir(parents=True, exist_ok=True)
        time = np.arange(round(tone.seconds * RATE)) / RATE
        soundfile.write(path, 0.5 * np.sin(2 * np.pi * tone.hz * time), RATE)
    return folder


def make_dataset(out: Path, audio: Path) -> Path:
    """Write the dataset of the recordings, and one that failed."""
    codec = load_codec("mulaw")
    outcomes = [_outcome(tone, audio, codec) for tone in TONES]
    clip_id, reason = FAILED
    failed = PlannedClip(clip_id, clip_id, clip_id, error=reason)
    append_arrays(out, dataset_info(codec, EncodeSettings()), [*outcomes, Outcome(failed, error=reason)], {"made": "1"})
    return out


def _outcome(tone: Tone, audio: Path, codec: Any) -> Outcome:
    samples, _ = soundfile.read(audio / tone.id, dtype="float32")
    codes = codec.encode(torch.from_numpy(samples)[None, None]).array[0]
    clip = PlannedClip(
        tone.id,
        tone.id,
        tone.id,
        stop=len(samples),
        num_samples=len(samples),
        source_sample_rate=RATE,
        source_num_channels=1,
        source_num_samples=len(samples),
        source_format="wav",
        caption=tone.caption,
        metadata=tone.metadata,
    )
    return Outcome(clip, np.asarray(codes), len(samples))
