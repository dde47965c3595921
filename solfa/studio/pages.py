"""Pages from templates: everything that is filled in is escaped, and invisible characters are spelled out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import BaseRoute

from solfa.spelling import count, duration, plural, short, size
from solfa.ui.html.markup import visible
from solfa.version import __version__

TEMPLATES = Path(__file__).parent / "templates"
STATIC = Path(__file__).parent / "static"
FILTERS: dict[str, Callable[..., str]] = {
    "count": count,
    "duration": duration,
    "plural": plural,
    "short": short,
    "size": size,
}


@dataclass(frozen=True)
class Room:
    """A part of the studio: its name in the navigation, where it begins, and what it answers."""

    title: str
    path: str
    routes: Sequence[BaseRoute]


class Pages:
    """Renders templates of this package."""

    def __init__(self) -> None:
        self._rooms: Sequence[Room] = ()
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            finalize=_shown,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(FILTERS)
        self._environment.globals["version"] = __version__

    def open(self, rooms: Sequence[Room]) -> None:
        """Show rooms in the navigation."""
        self._rooms = rooms

    def text(self, template: str, **values: Any) -> str:
        """Render a template, or a part of a page."""
        return self._environment.get_template(template).render(**values)

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Answer with a page; templates know the rooms and where they are."""
        text = self.text(template, rooms=self._rooms, here=request.url.path, link=linked(request), **values)
        return HTMLResponse(text, status, headers={"cache-control": "no-store"})


def linked(request: Request) -> Callable[..., str]:
    """Make a function that changes some of this page's query and leaves the rest: `link(page=2)`, `link(q=None)`."""

    def link(**changes: object) -> str:
        query = {**request.query_params, **changes}
        kept = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return f"{request.url.path}?{urlencode(kept)}" if kept else request.url.path

    return link


def _shown(value: Any) -> Any:
    """Spell out what nobody would see; markup is left as it is."""
    if value is None:
        return ""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
