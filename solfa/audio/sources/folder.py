"""A folder of audio files and tars, and a single file."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from solfa.audio.decoders.byte_range import regular_file_status
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
        root = os.fspath(self.root)
        for name, error, has_sidecars in walk(self.root):
            if error is not None:
                yield Recording(key=name, uri=name, error=error)
            elif is_tar_name(name):
                yield from tar_recordings(self.root / unescape_path(name), uri=name)
            else:
                path = os.path.join(root, unescape_path(name) if "%" in name else name)  # noqa: PTH118
                yield file_recording(path, key=name, uri=name, has_sidecars=has_sidecars)


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


def file_recording(path: str | Path, *, key: str, uri: str, has_sidecars: bool = True) -> Recording:
    """Describe one file, or say why it cannot be read; if it may have files beside it, with what they say."""
    caption, metadata = read_sidecars(Path(path)) if has_sidecars else (None, {})
    status = regular_file_status(path)
    if isinstance(status, str):
        return Recording(key=key, uri=uri, caption=caption, metadata=metadata, error=status)
    return Recording(
        key=key,
        uri=uri,
        size_bytes=status.st_size,
        mtime_ns=status.st_mtime_ns,
        caption=caption,
        metadata=metadata,
    )
