"""The only code that deals with audio files: probe, read a span, resample, write, and list collections."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.audio.channels import Audio, to_channels
    from solfa.audio.probe import probe_audio, probe_recording
    from solfa.audio.reader import read_audio, read_span
    from solfa.audio.recording import AudioInfo, AudioSource, Location, Recording
    from solfa.audio.sources.choice import open_source
    from solfa.audio.sources.location import locate_recording
    from solfa.audio.writer import write_audio
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.audio.channels": ["Audio", "to_channels"],
            "solfa.audio.probe": ["probe_audio", "probe_recording"],
            "solfa.audio.reader": ["read_audio", "read_span"],
            "solfa.audio.recording": ["AudioInfo", "AudioSource", "Location", "Recording"],
            "solfa.audio.sources.choice": ["open_source"],
            "solfa.audio.sources.location": ["locate_recording"],
            "solfa.audio.writer": ["write_audio"],
        },
    )

__all__ = [
    "Audio",
    "AudioInfo",
    "AudioSource",
    "Location",
    "Recording",
    "locate_recording",
    "open_source",
    "probe_audio",
    "probe_recording",
    "read_audio",
    "read_span",
    "to_channels",
    "write_audio",
]
