"""What networks that were trained to listen hear: copies of all systems beside the originals, as files.

clips ──► systems ──► OUT/KIND-CLIPS/SYSTEM/CLIP.wav ──► music: KAD by musicnn ; speech: PLCMOS and P.808 of DNSMOS
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

import solfa
from solfa.audio import read_audio, write_audio
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.ui.terminal.console import progress_bar

from .clips import Clip, Kind, Mono, read_excerpt
from .competitors import BandLimit, System
from .metrics import resample

RATE = 24_000
"""Of what is kept: a codec of more is heard up to 12 kHz."""
SPEECH_RATE = 16_000
SECONDS: dict[Kind, float] = {"music": 9.0, "speech": 8.0}
"""Whole windows of musicnn; what PLCMOS hears at once."""
ORIGINAL = BandLimit(RATE)


def render(systems: Sequence[System], clips: Sequence[Clip], kind: Kind, out: Path) -> dict[str, Path]:
    """Put every clip through every system; return the folder of each, which holds these clips and no others."""
    chosen = hashlib.sha256("".join(clip.digest for clip in clips).encode()).hexdigest()[:8]
    place = out / f"{kind}-{chosen}"
    folders = {system.name: place / _folder_name(system) for system in systems}
    with progress_bar(kind, "clips") as bar:
        for number, clip in enumerate(clips, start=1):
            missing = [s for s in systems if not (folders[s.name] / f"{clip.digest[:16]}.wav").exists()]
            reference = read_excerpt(clip) if missing else None
            for system in missing:
                assert reference is not None
                found = system.render(reference)
                audio = np.clip(resample(found.audio, found.sample_rate, RATE), -1, 1)
                folders[system.name].mkdir(parents=True, exist_ok=True)
                write_audio(folders[system.name] / f"{clip.digest[:16]}.wav", audio[None], RATE, wav_subtype="PCM_16")
            bar(number, len(clips))
    return folders


def _folder_name(system: System) -> str:
    """Name a system and what its output depends on, so that copies of another of its name are not taken for its own."""
    name = re.sub(r"\W+", "_", system.name).strip("_")
    return f"{name}-{value_sha256(dict(system.identity()))[:8]}"


def hear_music(folders: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Measure the KAD of each system to the originals, and to the first system."""
    original, (first, *_) = folders[ORIGINAL.name], [name for name in folders if name != ORIGINAL.name]
    heard = {}
    for name, folder in folders.items():
        if name == ORIGINAL.name:
            continue
        against = None if name == first else folders[first]
        report = solfa.evaluate(folder, reference=original, embedder="musicnn", metrics=["kad"], against=against)
        kad = report["kad"]
        heard[name] = {
            "kad": kad.value,
            "interval": list(kad.interval),
            "clips": kad.num_recordings,
            "differences": [difference.as_dict() for difference in report.differences],
        }
    return heard


def hear_speech(folders: Mapping[str, Path]) -> dict[str, dict[str, Any]]:
    """Let both networks score every clip."""
    try:
        from speechmos import dnsmos, plcmos  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise ConfigError(
            f"speech: expected speechmos and what it imports, found {error}; pip install speechmos librosa onnxruntime "
            "requests, or ask for --kind music"
        ) from None
    scores: dict[str, dict[str, list[float]]] = {}
    for name, folder in folders.items():
        sounds = [_at_speech_rate(path) for path in sorted(folder.glob("*.wav"))]
        scores[name] = {
            "plcmos": [float(plcmos.run(sound, SPEECH_RATE, return_df=False)["plcmos"]) for sound in sounds],
            "p808": [float(dnsmos.run(sound, SPEECH_RATE, return_df=False)["p808_mos"]) for sound in sounds],
        }
    first = scores[next(name for name in folders if name != ORIGINAL.name)]
    return {
        name: {measure: summarise(values, first[measure]) for measure, values in found.items()}
        for name, found in scores.items()
    }


def _at_speech_rate(path: Path) -> Mono:
    sound: Mono = np.clip(read_audio(path, sample_rate=SPEECH_RATE)[0], -1, 1)
    return sound


def summarise(values: list[float], others: list[float]) -> dict[str, Any]:
    """Describe scores, and how they differ from others of the same clips: means and their standard errors."""
    differences = [one - other for one, other in zip(values, others, strict=True)]
    root = len(values) ** 0.5
    return {
        "mean": fmean(values),
        "error": stdev(values) / root,
        "difference": fmean(differences),
        "difference_error": stdev(differences) / root,
        "clips": len(values),
    }
