"""What the rest of Solfa knows about a source of audio: one `Recording` per file or tar member."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from solfa.files.stores.object_file import ObjectFile
from solfa.files.stores.place import Place


class Location(NamedTuple):
    """Where the bytes of one recording are: a file or an object, or a byte range of an uncompressed tar."""

    path: Path | ObjectFile
    offset: int = 0
    size: int | None = None
    """Bytes of the member; None for a whole file."""
    format_hint: str = ""
    """The lower-case extension of the name, e.g. `.flac`."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording of a source, not opened yet.

    >>> from pathlib import Path
    >>> from solfa.audio import Recording, probe_recording
    >>> kick = Recording(key="kick", uri="drums/kick.wav", caption="one kick")
    >>> probe_recording(Path("audio"), kick).num_samples
    22050
    """

    key: str
    """Unique and stable name: the escaped relative path, or the table's own id. The stem of its clips' ids."""
    uri: str
    """The escaped path, relative to the source's root if it is below it, otherwise absolute; or an object's URL."""
    size_bytes: int = 0
    mtime_ns: int = 0
    """When the file was changed; of an object, a number made from its ETag."""
    member: str | None = None
    """Name inside the tar at `uri`, with its byte range."""
    member_offset: int = 0
    member_size: int = 0
    caption: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Everything the source says about it, as JSON values (including the column of the caption)."""
    error: str | None = None
    """Why it cannot be read (missing, broken link, not a file); it becomes a failed row."""


class AudioInfo(NamedTuple):
    """What a file's header says."""

    sample_rate: int
    num_channels: int
    num_samples: int
    format: str


class AudioSource(Protocol):
    """A collection of recordings, always in the same order.

    Anything with these two members is a source: `solfa.encode` takes the object itself.
    """

    @property
    def root(self) -> Place:
        """What relative uris are relative to."""
        ...

    def recordings(self) -> Iterator[Recording]: ...
