"""Find the bytes of a recording, from the recording itself or from its stored row."""

from pathlib import Path

from solfa.audio.file_types import extension
from solfa.audio.recording import Location, Recording
from solfa.files.printable_names import escape_path, unescape_path
from solfa.files.stores.bucket_store import BucketStore
from solfa.files.stores.object_file import ObjectFile, version_number
from solfa.files.stores.place import Place, is_url


def locate(root: Place, uri: str, member: str | None = None, member_offset: int = 0, member_size: int = 0) -> Location:
    """Find the bytes of a recording of a source whose root is `root`."""
    path = _find(root, uri)
    if member is None:
        return Location(path, format_hint=extension(path.name))
    return Location(path, member_offset, member_size, extension(member))


def _find(root: Place, uri: str) -> Path | ObjectFile:
    if is_url(uri):
        scheme, _, rest = uri.partition("://")
        bucket, _, key = rest.partition("/")
        return ObjectFile(BucketStore(f"{scheme}://{bucket}"), unescape_path(key).as_posix())
    if isinstance(root, Path):
        return root / (unescape_path(uri) if "%" in uri else uri)
    return ObjectFile(root, unescape_path(uri).as_posix())


def file_version(path: Path | ObjectFile) -> tuple[int, int]:
    """Return the size of a file and what changes when it does, as a `Recording` has them."""
    if isinstance(path, Path):
        status = path.stat()
        return status.st_size, status.st_mtime_ns
    if path.entry is None:
        raise FileNotFoundError(str(path))
    return path.entry.size_bytes, version_number(path.entry.version)


def locate_file(path: str | Path) -> Location:
    """Find the bytes of an audio file."""
    return Location(Path(path).expanduser(), format_hint=extension(Path(path).name))


def locate_recording(root: Place, recording: Recording) -> Location:
    """Find the bytes of a recording.

    >>> from solfa.audio import locate_recording, open_source
    >>> source = open_source("audio/drums")
    >>> kick = next(iter(source.recordings()))
    >>> locate_recording(source.root, kick).path.as_posix()
    'audio/drums/kick.wav'
    """
    return locate(root, recording.uri, recording.member, recording.member_offset, recording.member_size)


def uri_below(root: Path, path: Path) -> str:
    """Write a path relative to `root` if it is below it, otherwise absolute."""
    absolute, base = path.absolute(), root.absolute()
    return escape_path(absolute.relative_to(base) if absolute.is_relative_to(base) else absolute)
