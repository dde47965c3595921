"""From notes to sound: the soundfont that comes with pretty_midi, played by tinysoundfont, levelled, with an ending.

Both are packages of PyPI that only this recipe needs. Nothing of pretty_midi is used but its soundfont.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soxr
from composition import VELOCITY, Note
from numpy.typing import NDArray
from orchestra import CLOSED, DRUMS, KICK, SNARE, Instrument
from spec import SECONDS, Spec

from solfa.errors import ConfigError

SAMPLE_RATE = 24_000
FRAME_RATE = 75
"""Of the built-in codec. Notes begin and end with a frame: a note that comes again is the same codes again."""
OVERSAMPLING = 2
"""The synthesiser interpolates linearly: what that adds is above the band that is kept."""
LEVEL_DB = -21.0
"""Of an instrument's chord, struck twice a second. A piece is louder if there are more notes in it."""
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
        self._gains: dict[str, float] = {}

    def render(self, spec: Spec, notes: Sequence[Note]) -> NDArray[np.float32]:
        """Play a piece, `[N]` of `SECONDS` at `SAMPLE_RATE`."""
        return finish(self._play(notes, spec.beat_seconds), self._gain(spec.instrument))

    def _play(self, notes: Sequence[Note], beat_seconds: float) -> NDArray[np.float32]:
        rate = OVERSAMPLING * SAMPLE_RATE
        synth, channels = self._synth(rate, notes)
        num_samples = round(SECONDS * rate)
        mixed, at = np.zeros(num_samples, np.float32), 0
        for place, order, note in [*_events(notes, beat_seconds, rate), (num_samples, 0, None)]:
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
        return np.asarray(soxr.resample(mixed, rate, SAMPLE_RATE))

    def _gain(self, player: Instrument) -> float:
        """Measure once how much louder an instrument has to be; all its pieces get the same."""
        if player.name not in self._gains:
            keys = (KICK, SNARE, CLOSED) if player == DRUMS else [player.middle + step for step in (0, 4, 7)]
            struck = [Note(player, key, start, 0.95, VELOCITY) for start in range(16) for key in keys]
            heard = self._play(struck, beat_seconds=0.5)[: 8 * SAMPLE_RATE]
            self._gains[player.name] = 10 ** (LEVEL_DB / 20) / float(np.sqrt(np.mean(heard**2)))
        return self._gains[player.name]

    def _synth(self, rate: int, notes: Sequence[Note]):  # type: ignore[no-untyped-def]
        from tinysoundfont import Synth

        synth = Synth(gain=-12, samplerate=rate)
        font = synth.sfload(self._soundfont)
        players = {note.instrument.name: note.instrument for note in notes}
        channels = {}
        for number, (name, player) in enumerate(sorted(players.items())):
            is_drums = player == DRUMS
            channels[name] = 9 if is_drums else number
            synth.program_select(channels[name], font, 128 if is_drums else 0, player.program, is_drums)
        return synth, channels


def _events(notes: Sequence[Note], beat_seconds: float, rate: int) -> list[tuple[int, int, Note]]:
    """Place beginnings (1) and ends (0) of notes in samples; a note ends before the same key begins again."""
    events = []
    for note in notes:
        start = note.start * beat_seconds
        stop = min(start + note.length * beat_seconds, RELEASE_SECONDS)
        events += [(_on_frame(start, rate), 1, note), (_on_frame(stop, rate), 0, note)]
    return sorted(events, key=lambda event: event[:2])


def _on_frame(seconds: float, rate: int) -> int:
    """Return the sample at which the nearest frame begins, at most 7 ms away."""
    return round(seconds * FRAME_RATE) * (rate // FRAME_RATE)


def finish(sound: NDArray[np.float32], gain: float) -> NDArray[np.float32]:
    """Set the level without clipping, and fade the end to nothing."""
    fade = round(FADE_SECONDS * SAMPLE_RATE)
    level = np.ones(len(sound))
    level[-fade:] = 0.5 + 0.5 * np.cos(np.pi * np.arange(1, fade + 1) / fade)
    faded = sound * level
    return np.asarray(faded * min(gain, PEAK / float(np.abs(faded).max())), np.float32)
