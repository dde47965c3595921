"""Forms: read what a page sends, then answer in a thread."""

from collections.abc import Awaitable, Callable, Mapping

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

Form = Mapping[str, str | UploadFile]


def with_form(answer: Callable[[Request, Form], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Make a handler of a function that also takes the form; the function runs in a thread."""

    async def handle(request: Request) -> Response:
        async with request.form() as form:
            return await run_in_threadpool(answer, request, form)

    return handle
