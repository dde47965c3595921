"""What a codec says of itself, remembered, so that a command that need not run it need not load it.

To load a codec takes seconds: torch alone takes more than one. What it says is the same as long as its files, Solfa and
the libraries that read them are the same. So it is kept in the user's cache folder, under a digest of the text that
names it and of the sizes, inodes and times of all these files: whatever replaces or changes one of them changes its
time. Only codecs that ship with Solfa and local ones are remembered; a Hub model may have moved on.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from solfa.codecs.spec import CodecSpec, parse_spec
from solfa.config import Config
from solfa.files.cache_folder import cache_folder
from solfa.files.digest import value_sha256
from solfa.files.whole_files import replace_atomically

if TYPE_CHECKING:
    from solfa.codecs.protocol import Codec

_logger = logging.getLogger(__name__)

SHIPPED = ("solfa_24khz", "solfa_24khz_continuous", "mulaw", "linear")
"""Names of codecs that are files of Solfa, or need none."""
_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = ("torch", "transformers", "diffusers", "safetensors", "numpy", "pydantic")
_MAX_FILES, _MAX_KEPT = 5_000, 32
_SETTLED_SECONDS = 2.0
"""A file that changed within the tick of a clock has the same times before and after; one this old has not."""


class CodecFacts(Config):
    """What a codec says of itself, as `solfa.codecs.Codec` describes it."""

    name: str
    spec: str
    sample_rate: int
    num_channels: int
    hop_length: int
    kind: Literal["codes", "latents"]
    num_codebooks: int | None
    codebook_size: int | None
    latent_channels: int | None
    description: Mapping[str, Any]

    @classmethod
    def of(cls, codec: "Codec") -> "CodecFacts":
        """Ask a codec."""
        return cls(**{name: getattr(codec, name) for name in cls.model_fields})


class CodecMemory:
    """What is remembered of the codec that a text names, at the moment at which this was made."""

    def __init__(self, spec: str, precision: str | None = None) -> None:
        self._asked = (spec, precision)
        self._digest, self._newest_ns = _digest(spec, precision)

    def recall(self) -> CodecFacts | None:
        """Return what is remembered; None if that is nothing, or not to be relied on."""
        if self._digest is None:
            return None
        try:
            return CodecFacts.model_validate_json(_path(self._digest).read_bytes())
        except (OSError, RuntimeError, ValueError):  # not there, no place for it, damaged
            return None

    def remember(self, facts: CodecFacts) -> None:
        """Keep what a codec says that was loaded since, unless its files changed meanwhile or just before."""
        is_settled = self._newest_ns < time.time_ns() - _SETTLED_SECONDS * 1e9
        if self._digest is None or not is_settled or _digest(*self._asked)[0] != self._digest:
            return
        try:
            path = _path(self._digest)
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_atomically(path, facts.model_dump_json().encode())
            kept = sorted(path.parent.glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
            for old in kept[:-_MAX_KEPT]:
                old.unlink(missing_ok=True)
        except (OSError, RuntimeError) as error:
            _logger.info("what the codec says is not remembered: %s", error)


def _path(digest: str) -> Path:
    return cache_folder() / "codecs" / f"{digest}.json"


def _digest(spec: str, precision: str | None) -> tuple[str | None, int]:
    """Hash all that decides what a codec says; None if that cannot be known. Also say when the newest file changed."""
    parsed = parse_spec(spec)
    places = _places(parsed)
    if places is None or os.name != "posix":  # elsewhere nothing tells when a file was changed
        return None, 0
    found = (state for place in [*places, _PACKAGE, *_libraries()] for state in _states(place))
    states = list(islice(found, _MAX_FILES + 1))
    if len(states) > _MAX_FILES:
        return None, 0
    return value_sha256([parsed.head, dict(parsed.options), precision, states]), max(
        state.changed_ns for state in states
    )


def _places(parsed: CodecSpec) -> list[Path] | None:
    """List the files and folders of a codec; None if they are not all known."""
    named = [Path(value).expanduser().absolute() for value in parsed.options.values()]
    places = [path for path in named if path.exists()]
    if parsed.head in SHIPPED:
        return places
    head = Path(parsed.head).expanduser()
    return [head, *places] if head.is_absolute() and head.exists() else None


def _libraries() -> Iterator[Path]:
    """Find the libraries that read codecs, without importing them."""
    for name in _LIBRARIES:
        found = find_spec(name)
        if found is not None and found.origin is not None:
            yield Path(found.origin)


class _State(NamedTuple):
    """What tells whether a file is what it was."""

    path: str
    size_bytes: int
    inode: int
    modified_ns: int
    changed_ns: int


def _states(place: Path) -> Iterator[_State]:
    """Look at a file, or at all files of a folder, and of those in it."""
    if not place.is_dir():
        status = place.stat()
        yield _State(ascii(str(place)), status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        return
    for folder, folders, names in os.walk(place, followlinks=True):
        # What Python compiles is no source of anything.
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            yield from _states(Path(folder, name))
