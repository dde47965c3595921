"""Files to listen to while clips are being drawn: `NAME.partial.wav`, until the clip is complete or rejected.

blocks of audio ──► NAME.partial.wav ──┬── complete ──► NAME.wav, NAME.png, NAME.json
                                       ├── rejected ──► removed
                                       └── stopped  ──► stays and can be played
"""

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, final

from solfa.audio.growing_wav import GrowingWav
from solfa.errors import ConfigError
from solfa.files.id_names import flat_name
from solfa.generate.clip import GeneratedClip
from solfa.generate.stream import AudioBlock
from solfa.ui.clip_files import write_sample

_SUFFIX = ".partial"


def partial_path(folder: Path, name: str) -> Path:
    """Return the path of a clip's partial file."""
    return folder / f"{flat_name(name)}{_SUFFIX}.wav"


def refuse_ambiguous(names: Collection[str]) -> None:
    """Refuse a clip whose name is that of another clip's partial file."""
    known = set(names)
    for name in names:
        if f"{name}{_SUFFIX}" in known:
            raise ConfigError(
                f"clip {name + _SUFFIX!r}: {name + _SUFFIX}.wav is used for the start of {name!r}; "
                "choose another name, or use `stream=False`"
            )


@final
class PartialSamples:
    """The clips that are being drawn into a folder; if all goes well, only the completed ones stay."""

    def __init__(self, folder: Path, provenance: Mapping[str, Any] | None = None) -> None:
        self.folder, self._provenance = folder, provenance
        self.paths: dict[str, Path] = {}
        """The files of all clips that were started and are neither complete nor rejected."""
        self._growing: dict[str, GrowingWav] = {}

    def append(self, block: AudioBlock) -> None:
        """Write the next samples of a clip."""
        if block.name not in self.paths:
            path = partial_path(self.folder, block.name)
            self._growing[block.name] = GrowingWav(path, block.sample_rate, len(block.audio))
            self.paths[block.name] = path
        self._growing[block.name].append(block.audio.numpy())
        if block.is_last:
            # If clips can be rejected, all are drawn before the first is complete, which may be more than can be open.
            self._growing.pop(block.name).close()

    def complete(self, clip: GeneratedClip, extension: str) -> None:
        """Write a complete clip as audio, picture and metadata, and remove its partial file."""
        write_sample(clip, self.folder, extension, self._provenance)
        self.paths.pop(clip.name).unlink()

    def __enter__(self) -> "PartialSamples":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with ExitStack() as stack:
            for growing in self._growing.values():
                stack.callback(growing.close)
        if error is None:
            for path in self.paths.values():
                path.unlink()
