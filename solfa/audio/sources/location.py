"""Find the bytes of a recording, from the recording itself or from its stored row."""

from pathlib import Path

from solfa.audio.file_types import extension
from solfa.audio.recording import Location, Recording
from solfa.files.printable_names import escape_path, unescape_path


def locate(root: Path, uri: str, member: str | None = None, member_offset: int = 0, member_size: int = 0) -> Location:
    """Find the bytes of a recording of a source whose root is `root`."""
    path = root / unescape_path(uri)
    if member is None:
        return Location(path, format_hint=extension(path.name))
    return Location(path, member_offset, member_size, extension(member))


def locate_file(path: str | Path) -> Location:
    """Find the bytes of an audio file."""
    return Location(Path(path).expanduser(), format_hint=extension(Path(path).name))


def locate_recording(root: Path, recording: Recording) -> Location:
    """Find the bytes of a recording."""
    return locate(root, recording.uri, recording.member, recording.member_offset, recording.member_size)


def uri_below(root: Path, path: Path) -> str:
    """Write a path relative to `root` if it is below it, otherwise absolute."""
    absolute, base = path.absolute(), root.absolute()
    return escape_path(absolute.relative_to(base) if absolute.is_relative_to(base) else absolute)
