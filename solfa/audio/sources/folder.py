"""A folder of audio files and tars, and a single file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from solfa.audio.decoders.byte_range import regular_file_fault
from solfa.audio.recording import Recording
from solfa.audio.sources.folder_walk import is_tar_name, walk
from solfa.audio.sources.metadata import read_sidecars
from solfa.audio.sources.tar import tar_recordings
from solfa.files.printable_names import escape_path, unescape_path


@dataclass(frozen=True)
class FolderSource:
    """Every audio file below `root`, with the captions and metadata next to it, and every member of every tar."""

    root: Path

    def recordings(self) -> Iterator[Recording]:
        for name, error in walk(self.root):
            if error is not None:
                yield Recording(key=name, uri=name, error=error)
            elif is_tar_name(name):
                yield from tar_recordings(self.root / unescape_path(name), uri=name)
            else:
                yield file_recording(self.root / unescape_path(name), key=name, uri=name)


@dataclass(frozen=True)
class FileSource:
    """One audio file."""

    path: Path

    @property
    def root(self) -> Path:
        return self.path.parent

    def recordings(self) -> Iterator[Recording]:
        name = escape_path(self.path.name)
        yield file_recording(self.path, key=name, uri=name)


def file_recording(path: Path, *, key: str, uri: str) -> Recording:
    """Describe one file, or say why it cannot be read."""
    caption, metadata = read_sidecars(path)
    fault = regular_file_fault(path)
    if fault is not None:
        return Recording(key=key, uri=uri, caption=caption, metadata=metadata, error=fault)
    status = path.stat()
    return Recording(
        key=key,
        uri=uri,
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        caption=caption,
        metadata=metadata,
    )
