"""What was encoded in the studio: one folder per dataset, with the files that were sent.

encoded/
  kicks/
    asked.json        the codec, and when
    audio/kick.wav    the files as they were sent
    kicks.solfa       the dataset, which any command takes
"""

import json
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from solfa.errors import ConfigError
from solfa.files.whole_files import replace_atomically
from solfa.store.layout import manifests
from solfa.studio.uploads import safe_name, save_upload

ASKED, AUDIO = "asked.json", "audio"
MOST_FILES = 1000
_NAME = re.compile(r"\w[\w.-]{0,79}")


class Encoding:
    """One folder: files, a codec, and the dataset that is made of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        asked = json.loads((folder / ASKED).read_text("utf-8"))
        self.codec: str = asked["codec"]
        self.time: float = asked["time"]

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def key(self) -> str:
        """What its job is called."""
        return f"encode-{self.name}"

    @property
    def audio(self) -> Path:
        return self.folder / AUDIO

    @property
    def dataset(self) -> Path:
        return self.folder / f"{self.name}.solfa"

    @property
    def is_finished(self) -> bool:
        """Whether all files are in the dataset, or among its failures."""
        return bool(manifests(self.dataset))

    def num_files(self) -> int:
        """Count the files that were sent."""
        return sum(1 for _ in self.audio.iterdir())


class Encodings:
    """All of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __iter__(self) -> Iterator[Encoding]:
        there = self.folder.iterdir() if self.folder.is_dir() else ()
        found = [Encoding(folder) for folder in there if (folder / ASKED).is_file()]
        return iter(sorted(found, key=lambda encoding: encoding.time, reverse=True))

    def find(self, name: str) -> Encoding:
        """Find one by its name in an address; it is a page that is not there if there is none."""
        if not _NAME.fullmatch(name) or not (self.folder / name / ASKED).is_file():
            raise HTTPException(404, f"nothing called {name!r} was encoded here")
        return Encoding(self.folder / name)

    def begin(self, typed_name: str, codec: str, uploads: Iterable[UploadFile]) -> Encoding:
        """Keep files that were sent; nothing is left of what is refused."""
        files = list(uploads)
        if not files:
            raise ConfigError("files: expected at least one audio file, found none; drop some, or choose them")
        if len(files) > MOST_FILES:
            raise ConfigError(f"files: expected at most {MOST_FILES} at once, found {len(files)}; use solfa encode")
        name = re.sub(r"[^\w.-]+", "-", safe_name(typed_name)).strip("-.") if typed_name else _default_name(files[0])
        folder = self.folder / name
        if not _NAME.fullmatch(name) or (typed_name and not re.search(r"\w", typed_name)):
            raise ConfigError(f"name: expected letters, digits, - and _, found {typed_name!r}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise ConfigError(f"name: there is a dataset {name!r} already; choose another name") from None
        try:
            for upload in files:
                save_upload(upload, folder / AUDIO)
        except BaseException:
            shutil.rmtree(folder)
            raise
        replace_atomically(folder / ASKED, json.dumps({"codec": codec, "time": time.time()}, indent=2).encode())
        return Encoding(folder)


def _default_name(first: UploadFile) -> str:
    stem = re.sub(r"[^\w-]+", "-", safe_name(first.filename or "").rpartition(".")[0]).strip("-")[:40]
    return f"{stem or 'audio'}-{time.strftime('%Y%m%d-%H%M%S')}"
