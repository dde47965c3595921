"""From notes to sound: the soundfont that comes with pretty_midi, played by tinysoundfont, levelled, with an ending.

Both are packages of PyPI that only this recipe needs. Nothing of pretty_midi is used but its soundfont.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soxr
from composition import Note
from numpy.typing import NDArray
from orchestra import DRUMS
from spec import SECONDS, START_SECONDS, Spec

from solfa.errors import ConfigError

SAMPLE_RATE = 24_000
OVERSAMPLING = 2
"""The synthesiser interpolates linearly: what that adds is above the band that is kept."""
RMS_DB = {"soft": -26.0, "medium": -21.0, "loud": -17.0}
PEAK = 0.89
FADE_SECONDS = 0.5
RELEASE_SECONDS = 9.4
"""When the last chord is let go, before the clip fades."""


def find_soundfont() -> Path:
    """Find TimGM6mb.sf2 in the installed package, which is not imported."""
    spec = importlib.util.find_spec("pretty_midi")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    path = Path(folders[0]) / "TimGM6mb.sf2" if folders else None
    if path is None or not path.is_file() or importlib.util.find_spec("tinysoundfont") is None:
        raise ConfigError(
            "rendering: expected the packages pretty_midi (for its soundfont) and tinysoundfont, found not both; "
            "pip install pretty_midi, and pip install --no-deps tinysoundfont"
        )
    return path


class Player:
    """A synthesiser with the soundfont loaded once; each piece begins in silence."""

    def __init__(self, soundfont: Path) -> None:
        self._soundfont = soundfont.read_bytes()

    def render(self, spec: Spec, notes: Sequence[Note]) -> NDArray[np.float32]:
        """Play a piece, `[N]` of `SECONDS` at `SAMPLE_RATE`."""
        rate = OVERSAMPLING * SAMPLE_RATE
        events = _events(notes, spec.beat_seconds, rate)
        synth, channels = self._synth(rate, notes)
        num_samples = round(SECONDS * rate)
        mixed, at = np.zeros(num_samples, np.float32), 0
        for place, order, note in [*events, (num_samples, 0, None)]:
            if place > at:
                block = np.frombuffer(bytes(synth.generate(place - at)), np.float32).reshape(-1, 2)
                mixed[at:place] = block.mean(axis=1)
                at = place
            if note is not None:
                channel = channels[note.instrument.name]
                if order:
                    synth.noteon(channel, note.key, note.velocity)
                else:
                    synth.noteoff(channel, note.key)
        return finish(soxr.resample(mixed, rate, SAMPLE_RATE), RMS_DB[spec.dynamics])

    def _synth(self, rate: int, notes: Sequence[Note]):  # type: ignore[no-untyped-def]
        from tinysoundfont import Synth

        synth = Synth(gain=-12, samplerate=rate)
        font = synth.sfload(self._soundfont)
        players = {note.instrument.name: note.instrument for note in notes}
        channels = {}
        for number, (name, player) in enumerate(sorted(players.items())):
            is_drums = player is DRUMS
            channels[name] = 9 if is_drums else number
            synth.program_select(channels[name], font, 128 if is_drums else 0, player.program, is_drums)
        return synth, channels


def _events(notes: Sequence[Note], beat_seconds: float, rate: int) -> list[tuple[int, int, Note]]:
    """Place beginnings (1) and ends (0) of notes in samples; a note ends before the same key begins again."""
    events = []
    for note in notes:
        start = START_SECONDS + note.start * beat_seconds
        stop = min(start + note.length * beat_seconds, RELEASE_SECONDS)
        events += [(round(start * rate), 1, note), (round(stop * rate), 0, note)]
    return sorted(events, key=lambda event: event[:2])


def finish(sound: NDArray[np.float32], rms_db: float) -> NDArray[np.float32]:
    """Set the level without clipping, and fade the end to nothing."""
    fade = round(FADE_SECONDS * SAMPLE_RATE)
    level = np.ones(len(sound))
    level[-fade:] = 0.5 + 0.5 * np.cos(np.pi * np.arange(1, fade + 1) / fade)
    faded = (sound - sound.mean()) * level
    gain = 10 ** (rms_db / 20) / float(np.sqrt(np.mean(faded**2)))
    return np.asarray(faded * min(gain, PEAK / float(np.abs(faded).max())), np.float32)
