"""The room of encoding: its addresses. What answers is imported when somebody comes in, because that takes torch."""

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from solfa.studio.context import Studio
from solfa.studio.encode.encoding_folder import Encodings
from solfa.studio.forms import Form, with_form
from solfa.studio.once import Once
from solfa.studio.pages import Room
from solfa.studio.uploads import with_upload

if TYPE_CHECKING:
    from solfa.studio.encode.encode_answers import EncodeAnswers


def encode_room(studio: Studio) -> Room:
    """Make the room; the datasets that were made here before are put on the shelf."""
    encodings = Encodings(studio.own_dir / "encoded")
    for encoding in encodings:
        if encoding.is_finished:
            studio.shelf.add(encoding.dataset, [encoding.audio])

    def make() -> "EncodeAnswers":
        from solfa.studio.encode.encode_answers import EncodeAnswers

        return EncodeAnswers(studio, encodings)

    answers = Once(make)

    def show(request: Request) -> Response:
        return answers().show(request)

    def take(request: Request, form: Form) -> Response:
        return answers().take(request, form)

    def resume(request: Request, form: Form) -> Response:
        return answers().resume(request, form)

    return Room(
        "Encode",
        "/encode",
        [
            Route("/encode", show, methods=["GET"]),
            Route("/encode", with_upload(take), methods=["POST"]),
            Route("/encode/{name}/resume", with_form(resume), methods=["POST"]),
        ],
    )
