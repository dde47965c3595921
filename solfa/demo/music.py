"""What the demo asks the model that comes with Solfa to play."""

from collections.abc import Callable
from pathlib import Path

from solfa.audio.writer import write_audio
from solfa.generate.built_in.model_release import TINY_MUSIC, is_released
from solfa.generate.model import load_model
from solfa.generate.request import ClipRequest
from solfa.ui.html.report_data import Sound, WrittenClip

SECONDS = 10.0
TEXTS = (
    "slow piano chords in A minor, 80 bpm",
    "fast marimba arpeggios in C major, 126 bpm",
    "rock drums, 110 bpm",
)
"""One for harmony, one for speed, one for rhythm."""


def write_music(folder: Path, say: Callable[[str], None]) -> tuple[WrittenClip, ...]:
    """Have every text played, and write the clips as files; none if the model is not in this installation."""
    if not is_released(TINY_MUSIC):
        return ()
    say(f"having {TINY_MUSIC} write {len(TEXTS)} pieces of music")
    model = load_model(TINY_MUSIC, device="cpu")
    names = [text.replace(",", "").replace(" ", "-") for text in TEXTS]
    requests = [
        ClipRequest(name, SECONDS, seed, text) for seed, (name, text) in enumerate(zip(names, TEXTS, strict=True))
    ]
    clips = {clip.name: clip for clip in model.draw(requests)}
    for name in names:
        write_audio(folder / f"{name}.wav", clips[name].samples(), clips[name].sample_rate)
    return tuple(
        WrittenClip(name, text, Sound(clips[name].samples(), clips[name].sample_rate), clips[name].metadata)
        for name, text in zip(names, TEXTS, strict=True)
    )
