"""The history of what was asked: one folder per wish, kept until somebody removes it.

generated/
  20261117-061500-3fa2c1/     a name that sorts by time
    asked.json                what was asked, and the command that does the same; written first
    a-warm-piano-000.wav      the clips, as `solfa generate` writes them, with picture and metadata
    given/riff.wav            a recording that was sent along
    outcome.json              how it ended; missing if the studio was killed meanwhile
"""

import json
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException

from solfa.config import parse_config
from solfa.errors import SolfaError
from solfa.files.whole_files import replace_atomically
from solfa.studio.generate.wish import Asked

ASKED, OUTCOME, GIVEN = "asked.json", "outcome.json", "given"
PARTIAL = ".partial.wav"
TYPES = {
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".ogg": "audio/ogg",
    ".png": "image/png",
    ".json": "application/json",
}
_NAME = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


@dataclass(frozen=True)
class TakenClip:
    """A clip of a take: what a page shows of it."""

    file: str
    """The name of its audio."""
    seconds: float
    sample_rate: int
    seed: int | None

    @property
    def stem(self) -> str:
        return self.file.rpartition(".")[0]

    @property
    def picture(self) -> str:
        return f"{self.stem}.png"


class Take:
    """One wish and what came of it."""

    def __init__(self, folder: Path) -> None:
        """Read what was asked."""
        self.folder = folder
        written = json.loads((folder / ASKED).read_text("utf-8"))
        self.asked = parse_config(Asked, written["asked"], ASKED)
        self._time: float = written["time"]

    @property
    def key(self) -> str:
        return self.folder.name

    @property
    def when(self) -> str:
        """When it was asked for, to the minute, by the clock of this machine."""
        return time.strftime("%d %b %Y, %H:%M", time.localtime(self._time))

    @property
    def outcome(self) -> tuple[str, str]:
        """How it ended, and a sentence."""
        try:
            ended = json.loads((self.folder / OUTCOME).read_text("utf-8"))
        except FileNotFoundError:
            return "stopped", "The studio ended meanwhile."
        return ended["state"], ended["note"]

    def end(self, state: str, note: str) -> None:
        """Note how it ended."""
        replace_atomically(self.folder / OUTCOME, json.dumps({"state": state, "note": note}).encode())

    def clips(self) -> list[TakenClip]:
        """List the complete clips, by name."""
        return [
            _read_clip(path) for path in sorted(self.folder.glob("[!.]*.json")) if path.name not in (ASKED, OUTCOME)
        ]

    def partial(self) -> list[str]:
        """List the clips that were begun and are not complete."""
        return sorted(path.name for path in self.folder.glob(f"*{PARTIAL}"))


def own_file(folder: Path, name: str) -> Path:
    """Return a file of a take's folder that a page may show; anything else is a page that is not there."""
    inner, _, last = name.rpartition("/")
    path = folder / inner / last
    if inner not in ("", GIVEN) or last in ("", ".", "..") or path.is_symlink() or not path.is_file():
        raise HTTPException(404, f"there is no {name!r} in {folder.name}")
    return path


def _read_clip(path: Path) -> TakenClip:
    about = json.loads(path.read_text("utf-8"))
    file = next(found.name for suffix in (".wav", ".flac", ".ogg") if (found := path.with_suffix(suffix)).is_file())
    return TakenClip(file, about["seconds"], about["sample_rate"], about["metadata"].get("seed"))


class Takes:
    """All of them, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def new_folder(self) -> Path:
        """Make a folder with a name that sorts by time."""
        folder = self.folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        folder.mkdir(parents=True)
        return folder

    def begin(self, folder: Path, asked: Asked) -> Take:
        """Note what is asked, before anything is made of it."""
        content = {"time": time.time(), "command": asked.command(), "asked": asked.model_dump(mode="json")}
        replace_atomically(folder / ASKED, json.dumps(content, indent=2, ensure_ascii=False).encode())
        return Take(folder)

    def find(self, key: str) -> Take:
        """Find a take by its name in an address; it is a page that is not there if there is none."""
        if not _NAME.fullmatch(key) or not (self.folder / key / ASKED).is_file():
            raise HTTPException(404, f"there is no {key!r} among what was generated")
        return Take(self.folder / key)

    def latest(self, count: int, before: str = "") -> tuple[list[Take], str | None]:
        """List takes, the latest first, from those older than `before`; also say which is the next to ask for."""
        found: list[Take] = []
        for take in self._newest_first(before):
            if len(found) == count:
                return found, found[-1].key
            found.append(take)
        return found, None

    def _newest_first(self, before: str) -> Iterator[Take]:
        if not self.folder.is_dir():
            return
        for folder in sorted(self.folder.iterdir(), reverse=True):
            if not _NAME.fullmatch(folder.name) or not (folder / ASKED).is_file():
                continue
            if not before or folder.name < before:
                try:
                    take = Take(folder)
                except (SolfaError, ValueError, KeyError):  # of another version, or damaged: the others are shown
                    continue
                yield take
