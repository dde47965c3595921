"""Write a small captioned collection of synthesised audio, like the folders people have, in miniature.

Twelve clips of four kinds, from half a second to longer than a segment, in six formats, four sample rates, mono and
stereo; captions next to them, some as text and some as JSON; and one file that only pretends to be audio.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from solfa.demo.instruments import Sound, master
from solfa.demo.pieces import arpeggio, beat, choir, glissando, progression, speech
from solfa.errors import ConfigError

BROKEN_FILE = "broken/not_really_audio.wav"

A_MINOR, C_MAJOR, D_NINTH = (45, 57, 60, 64, 69), (48, 55, 60, 64, 67), (50, 57, 60, 64, 66)
E_MINOR, F_MAJOR, G_MAJOR = (40, 55, 59, 64, 67), (41, 57, 60, 65, 69), (43, 55, 59, 62, 67)
SUSPENDED = (50, 57, 62, 64, 69)
HARP = (48, 52, 55, 59, 60, 64, 67, 71, 72, 76, 79, 83, 84)


@dataclass(frozen=True)
class DemoClip:
    """One file of the collection: its path, what plays, and its caption and metadata."""

    path: str
    sample_rate: int
    num_channels: int
    play: Callable[[int, int, np.random.Generator], Sound]
    """Called with the sample rate, the number of channels and the clip's own random generator."""
    subtype: str | None = None
    caption: str | None = None
    facts: tuple[tuple[str, Any], ...] = ()
    """Metadata besides the caption; if there is any, both are written as JSON instead of text."""


DEMO_CLIPS = (
    DemoClip(
        "strings/arpeggio.wav", 44_100, 2,
        lambda rate, channels, rng: arpeggio((A_MINOR, F_MAJOR, C_MAJOR, G_MAJOR), 8.5, rate, channels, rng),
        "PCM_16", "A steel-string guitar plays a calm arpeggio in A minor.",
    ),
    DemoClip(
        "strings/harp.mp3", 48_000, 2,
        lambda rate, channels, rng: glissando(HARP, 4.0, rate, channels, rng),
        None, "A harp sweeps upwards and rings out.", (("instrument", "harp"), ("key", "C major seventh")),
    ),
    DemoClip(
        "strings/long_walk.flac", 22_050, 1,
        lambda rate, channels, rng: arpeggio(
            (C_MAJOR, E_MINOR, A_MINOR, F_MAJOR, D_NINTH, G_MAJOR), 35.0, rate, channels, rng,
            beat_seconds=0.4, softness=5,
        ),
        "PCM_16", "A nylon guitar wanders through six chords for more than half a minute.",
        (("bpm", 75), ("instrument", "nylon guitar")),
    ),
    DemoClip(
        "strings/one_note.wav", 16_000, 1,
        lambda rate, channels, rng: arpeggio(((52,),), 0.5, rate, channels, rng),
        "PCM_16", "One plucked string, half a second.",
    ),
    DemoClip(
        "chords/warm_pad.flac", 48_000, 2,
        lambda rate, channels, rng: progression((A_MINOR, F_MAJOR, C_MAJOR, G_MAJOR), 12.0, rate, channels, rng),
        "PCM_24", "A warm synthesiser pad moves through four chords.",
        (("bpm", 80), ("instrument", "synthesiser pad")),
    ),
    DemoClip(
        "chords/organ.ogg", 44_100, 2,
        lambda rate, channels, rng: progression((D_NINTH, G_MAJOR, C_MAJOR), 6.0, rate, channels, rng, warmth=0.9),
        None, "A small organ, two five one.",
    ),
    DemoClip(
        "chords/suspended.wav", 22_050, 1,
        lambda rate, channels, rng: progression((SUSPENDED, A_MINOR), 5.2, rate, channels, rng, warmth=1.2),
        "FLOAT", "A suspended chord resolves slowly.", (("instrument", "string machine"),),
    ),
    DemoClip(
        "drums/backbeat.wav", 44_100, 2,
        lambda rate, channels, rng: beat(
            ("k.....k.k.......", "....s.......s...", "h.h.h.h.h.h.h.o."), 96.0, 5.0, rate, channels, rng
        ),
        "FLOAT", "A drum kit plays a dry backbeat.", (("bpm", 96), ("instrument", "drum kit")),
    ),
    DemoClip(
        "drums/half_time.ogg", 48_000, 1,
        lambda rate, channels, rng: beat(
            ("k.........k.....", "........s.....s.", "hhhhhhhhhhhhhhoh"), 140.0, 6.86, rate, channels, rng
        ),
        None, "Half-time drums with busy hi-hats.", (("bpm", 140), ("instrument", "drum kit")),
    ),
    DemoClip(
        "drums/one_kick.aiff", 22_050, 1,
        lambda rate, channels, rng: beat(("k",), 60.0 / 4 / 0.6, 0.6, rate, channels, rng),
        "PCM_16",
    ),
    DemoClip(
        "voice/question.aiff", 16_000, 1,
        lambda rate, channels, rng: speech("a so i u se a i", (48, 50, 47, 46, 45, 49, 55), 1.9, rate, rng),
        "PCM_16", "Somebody asks something, in no language.",
    ),
    DemoClip(
        "voice/choir.mp3", 44_100, 2,
        lambda rate, channels, rng: choir(
            "o a a u", ((45, 52, 60, 64), (41, 53, 60, 65), (43, 55, 59, 67), (45, 52, 60, 64)),
            5.5, rate, channels, rng,
        ),
        None, "Four voices sing open vowels in a church.", (("instrument", "choir"), ("language", None)),
    ),
)  # fmt: skip


def write_demo_collection(folder: Path, seed: int = 0) -> None:
    """Write the collection into `folder`, which is created if needed; the same seed gives the same sound."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: expected a folder for the demo collection, found a file; choose another place")
    for clip in DEMO_CLIPS:
        write_demo_clip(clip, folder, seed)
    broken = folder / BROKEN_FILE
    broken.parent.mkdir(parents=True, exist_ok=True)
    broken.write_text("This file is named like a recording and holds only these words.\n", encoding="utf-8")


def write_demo_clip(clip: DemoClip, folder: Path, seed: int) -> None:
    """Write one file of the collection with its caption and metadata."""
    path = folder / clip.path
    path.parent.mkdir(parents=True, exist_ok=True)
    # The generator depends on the clip's name, so that adding a clip changes no other.
    rng = np.random.default_rng([seed, *clip.path.encode()])
    audio = master(clip.play(clip.sample_rate, clip.num_channels, rng), clip.sample_rate)
    soundfile.write(path, audio.T, clip.sample_rate, subtype=clip.subtype)
    if clip.facts:
        description = {"caption": clip.caption, **dict(clip.facts)}
        path.with_suffix(".json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    elif clip.caption is not None:
        path.with_suffix(".txt").write_text(clip.caption + "\n", encoding="utf-8")
