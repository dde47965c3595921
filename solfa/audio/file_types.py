"""Which file names are audio, and which decoder reads them."""

from pathlib import PurePosixPath

SNDFILE_EXTENSIONS = frozenset({".wav", ".mp3", ".flac", ".ogg", ".oga", ".aif", ".aiff", ".opus"})
"""Decoded by libsndfile, which looks at the content and not at the name."""

AV_EXTENSIONS = frozenset({".m4a", ".m4b", ".aac", ".mp4", ".mov", ".3gp", ".webm", ".mka", ".mkv", ".wma"})
"""Decoded by PyAV, the extra `solfa[av]`."""

AUDIO_EXTENSIONS = SNDFILE_EXTENSIONS | AV_EXTENSIONS


def extension(name: str) -> str:
    """Return the lower-case extension of a path or a tar member's name, dot included."""
    if "/" in name:
        return PurePosixPath(name).suffix.lower()
    # The same for a bare name, in a twentieth of the time: folders have millions of them.
    stem, _, suffix = name.rpartition(".")
    return f".{suffix.lower()}" if stem and suffix else ""


def is_audio_name(name: str) -> bool:
    """Tell whether a name looks like audio."""
    return extension(name) in AUDIO_EXTENSIONS
