"""Who may use the studio: browsers of this machine, on pages of the studio itself, and others with a password.

A page of somebody else that is open in the same browser can send requests to 127.0.0.1, too. So every request has to
name this server as its host (a name that somebody else made point here is refused), requests that a browser says come
from another page are refused, and whatever changes something has to say that it comes from a page of the studio.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LOGIN = "/login"
_OPEN_TO_ALL = (LOGIN, "/look.css", "/static/")
"""What the page that asks for the password needs."""

POLICY = (
    "default-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; img-src 'self' data:; "
    "media-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""No script but our own files; the charts place their labels with `style` attributes."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    # Not `no-referrer`, with which browsers leave the origin out of forms.
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


@dataclass(frozen=True)
class Access:
    """The rule of one server."""

    port: int
    password: str | None = None
    """With one, browsers elsewhere may come in, too; nobody may without it."""
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """What the cookie of somebody who knows the password holds; another one after each start."""

    @property
    def cookie(self) -> str:
        """Its name; browsers keep one set of cookies for all ports of a machine."""
        return f"solfa-studio-{self.port}"

    @property
    def _names(self) -> set[str]:
        """How browsers of this machine call this server; the usual port is left out."""
        return {name if self.port == 80 else f"{name}:{self.port}" for name in LOOPBACK}

    def refusal(self, method: str, headers: Mapping[str, str]) -> str | None:
        """Say why a request is refused; None if it is not."""
        host = headers.get("host", "")
        if self.password is None and host not in self._names:
            return f"the host {host!r} is not this studio's, which is 127.0.0.1:{self.port}"
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and urlsplit(origin).netloc != host:
            return f"the request comes from {origin!r}, which is not the studio"
        is_visit = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if site is not None and site not in ("same-origin", "none") and not is_visit:
            return "the request comes from a page that is not the studio's"
        if method not in ("GET", "HEAD") and origin is None and site != "same-origin":
            return "the request does not say which page it comes from (no Origin)"
        return None

    def is_right(self, password: str) -> bool:
        """Compare a password, in a time that does not depend on it."""
        digests = (hashlib.sha256(text.encode()).digest() for text in (password, self.password or ""))
        return self.password is not None and hmac.compare_digest(*digests)

    def is_known(self, cookies: Mapping[str, str]) -> bool:
        """Say whether a browser has given the password, or does not have to."""
        return self.password is None or hmac.compare_digest(
            cookies.get(self.cookie, "").encode(), self.session.encode()
        )


class Gate:
    """The rule in front of an application; also adds the headers that every answer has."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        await self._choose(scope)(scope, receive, send_with_headers)

    def _choose(self, scope: Scope) -> ASGIApp:
        headers = Headers(scope=scope)
        refusal = self._access.refusal(scope["method"], headers)
        if refusal is not None:
            return PlainTextResponse(f"refused: {refusal}\n", 403)
        if scope["path"].startswith(_OPEN_TO_ALL) or self._access.is_known(_cookies(headers)):
            return self._app
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse(LOGIN, 303)
        return PlainTextResponse("the password is missing\n", 401)


def _cookies(headers: Headers) -> dict[str, str]:
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return {name: value for name, _, value in pairs}
