"""The room of models: its addresses. What answers is imported when somebody comes in, because that takes torch."""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from solfa.studio.context import Studio
from solfa.studio.forms import Form
from solfa.studio.once import Once
from solfa.studio.pages import Room
from solfa.studio.uploads import with_upload

if TYPE_CHECKING:
    from solfa.studio.generate.generate_answers import GenerateAnswers

MOST_UPLOADED = 200 * 10**6
"""A recording to start from is a piece of music, not a collection."""


def generate_room(studio: Studio) -> Room:
    """Make the room."""

    def make() -> "GenerateAnswers":
        from solfa.studio.generate.generate_answers import GenerateAnswers

        return GenerateAnswers(studio)

    answers = Once(make)

    def show(request: Request) -> Response:
        return answers().show(request)

    def ask(request: Request, form: Form) -> Response:
        return answers().ask(request, form)

    def picture(request: Request) -> Response:
        return answers().picture(request)

    def file(request: Request) -> Response:
        return answers().file(request)

    return Room(
        "Generate",
        "/generate",
        [
            Route("/generate", show, methods=["GET"]),
            Route("/generate", with_upload(ask, MOST_UPLOADED), methods=["POST"]),
            Route("/generate/takes/{take}/picture.png", picture),
            Route("/generate/takes/{take}/{file:path}", file),
        ],
    )
