"""The application: the rooms, the files that all pages load, the password, and what happens to errors.

Handlers are plain functions, which Starlette runs in threads: decoding and drawing do not hold up other requests.
"""

import os
import time
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from solfa.environment.faults import fault_sentence, note_traceback
from solfa.errors import SolfaError
from solfa.studio.access import LOGIN, Gate
from solfa.studio.compare.compare_room import compare_room
from solfa.studio.context import Studio
from solfa.studio.datasets.dataset_room import dataset_room
from solfa.studio.encode.encode_room import encode_room
from solfa.studio.forms import Form, with_form
from solfa.studio.generate.generate_room import generate_room
from solfa.studio.job_room import job_routes
from solfa.studio.pages import STATIC, Room
from solfa.studio.runs.run_room import run_room
from solfa.ui.html.style import style_sheet

ROOMS: tuple[Callable[[Studio], Room], ...] = (dataset_room, run_room, generate_room, compare_room, encode_room)
"""In the order of the navigation; the first is where a visitor arrives."""

WRONG_PASSWORD_SECONDS = 1.0


def make_app(studio: Studio) -> Gate:
    """Put the rooms together, behind the gate."""
    rooms = [make(studio) for make in ROOMS]
    studio.pages.open(rooms)
    routes = [
        Route("/", lambda request: RedirectResponse(rooms[0].path), name="start"),
        Route("/look.css", _look, name="look"),
        Mount("/static", StaticFiles(directory=STATIC), name="static"),
        *_password_routes(studio),
        *job_routes(studio),
        *(route for room in rooms for route in room.routes),
    ]
    app = Starlette(routes=routes)
    _explain_errors(app, studio)
    return Gate(app, studio.access)  # around all of it: answers to errors pass it, too


def _look(request: Request) -> Response:
    return Response(style_sheet(), media_type="text/css")


def _password_routes(studio: Studio) -> list[Route]:
    access = studio.access

    def ask(request: Request) -> Response:
        return studio.pages.page(request, "login.html", is_wrong=False)

    def enter(request: Request, form: Form) -> Response:
        if not access.is_right(str(form.get("password", ""))):
            time.sleep(WRONG_PASSWORD_SECONDS)  # in a thread of its own: only who guesses waits
            return studio.pages.page(request, "login.html", 403, is_wrong=True)
        response = RedirectResponse("/", 303)
        response.set_cookie(access.cookie, access.session, httponly=True, samesite="strict")
        return response

    return [Route(LOGIN, ask, methods=["GET"]), Route(LOGIN, with_form(enter), methods=["POST"])]


def _explain_errors(app: Starlette, studio: Studio) -> None:
    """Show one sentence, as the command line does; as plain text to whatever is no page."""

    def explain(request: Request, sentence: str, status: int) -> Response:
        if "text/html" in request.headers.get("accept", ""):
            return studio.pages.page(request, "error.html", status, sentence=sentence)
        return PlainTextResponse(f"{sentence}\n", status)

    def refused(request: Request, error: Exception) -> Response:
        return explain(request, str(error), 400)

    def not_there(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return explain(request, error.detail, error.status_code)

    def unexpected(request: Request, error: Exception) -> Response:
        note_traceback(error, os.environ, "studio")
        return explain(request, fault_sentence(error), 500)

    app.add_exception_handler(SolfaError, refused)
    app.add_exception_handler(HTTPException, not_there)
    app.add_exception_handler(Exception, unexpected)
