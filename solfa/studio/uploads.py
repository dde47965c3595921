"""Files that a page sends: bounded before they are read, and named so that they stay in their folder."""

import re
import shutil
import unicodedata
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from solfa.errors import ConfigError
from solfa.spelling import size
from solfa.studio.forms import Form, with_form

MOST_BYTES = 2 * 10**9
"""The most that one form may send, files and all."""
MOST_LETTERS = 120
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*%]')


def with_upload(
    answer: Callable[[Request, Form], Response], most_bytes: int = MOST_BYTES
) -> Callable[[Request], Awaitable[Response]]:
    """Make a handler of a function that also takes a form with files; more than `most_bytes` are refused unread.

    Files are written to the disk as they come in.
    """
    read = with_form(answer)

    async def handle(request: Request) -> Response:
        told = request.headers.get("content-length", "")
        if not told.isdecimal():
            raise HTTPException(411, "the browser does not say how much it sends; try another one")
        if int(told) > most_bytes:
            raise HTTPException(
                413,
                f"expected at most {size(most_bytes)} at once, found {size(int(told))}; send fewer files, or use "
                "solfa encode, which reads them where they are",
            )
        return await read(request)

    return handle


def safe_name(name: str) -> str:
    """Turn the name of a file on somebody's machine into one that is good anywhere and leads nowhere.

    >>> from solfa.studio.uploads import safe_name
    >>> safe_name("../../etc/passwd"), safe_name("C:\\\\sounds\\\\kick 1.wav"), safe_name(".hidden.wav")
    ('passwd', 'kick 1.wav', 'hidden.wav')
    """
    last = re.split(r"[/\\\\]", unicodedata.normalize("NFC", name))[-1]
    kept = "".join(letter if letter.isprintable() else "_" for letter in _FORBIDDEN.sub("_", last)).strip(" .")
    stem, dot, extension = kept.rpartition(".")
    if not dot or len(extension) > 8:
        stem, dot, extension = kept, "", ""
    encoded = stem.encode("utf-8", errors="replace")[:MOST_LETTERS].decode("utf-8", errors="ignore")
    return f"{encoded or 'file'}{dot}{extension}"


def is_sent(value: object) -> bool:
    """Say whether a field of a form holds a file: an empty one is sent without a name."""
    return isinstance(value, UploadFile) and bool(value.filename)


def save_upload(upload: UploadFile, folder: Path) -> Path:
    """Write a file into a folder; one with a name that is taken gets a number."""
    folder.mkdir(parents=True, exist_ok=True)
    name = safe_name(upload.filename or "")
    path = next(path for path in _numbered(folder / name) if not path.exists())
    try:
        with path.open("xb") as file:
            shutil.copyfileobj(upload.file, file)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise ConfigError(f"{name}: cannot be written to {folder} ({error.strerror}); free some space") from None
    return path


def _numbered(path: Path) -> "list[Path]":
    """List names to try, the plain one first."""
    return [path, *(path.with_name(f"{path.stem}-{number}{path.suffix}") for number in range(2, 10_000))]
