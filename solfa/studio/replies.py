"""Answers that are sounds and pictures: players ask for parts of a sound, and browsers keep what has not changed."""

import hashlib
import re

from starlette.requests import Request
from starlette.responses import Response

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


def byte_range(header: str, num_bytes: int) -> tuple[int, int] | None:
    """Read a `Range` header as start and stop; None for one that is not a single range within the content.

    >>> from solfa.studio.replies import byte_range
    >>> byte_range("bytes=2-", 10), byte_range("bytes=-3", 10), byte_range("bytes=4-99", 10)
    ((2, 10), (7, 10), (4, 10))
    """
    found = _RANGE.fullmatch(header.strip())
    if found is None or found[1] == found[2] == "":
        return None
    if not found[1]:
        start, stop = max(0, num_bytes - int(found[2])), num_bytes
    else:
        start, stop = int(found[1]), min(num_bytes, int(found[2]) + 1) if found[2] else num_bytes
    return (start, stop) if start < stop else None


def medium(request: Request, content: bytes, media_type: str) -> Response:
    """Answer with a sound or a picture, or the part of it that is asked for."""
    tag = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
    headers = {"accept-ranges": "bytes", "etag": tag, "cache-control": "private, no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    wanted = request.headers.get("range")
    if wanted is None or request.headers.get("if-range", tag) != tag:
        return Response(content, media_type=media_type, headers=headers)
    found = byte_range(wanted, len(content))
    if found is None:
        return Response(status_code=416, headers={**headers, "content-range": f"bytes */{len(content)}"})
    start, stop = found
    headers["content-range"] = f"bytes {start}-{stop - 1}/{len(content)}"
    return Response(content[start:stop], 206, headers, media_type)
