"""What is said about jobs to the pages of all rooms: how far they are, and Stop."""

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from solfa.studio.context import Studio
from solfa.studio.events import Feed
from solfa.studio.forms import Form, with_form

LOOK_SECONDS = 0.2


def job_routes(studio: Studio) -> list[Route]:
    """List what is answered; it is no room of its own, because jobs are shown where they were asked for."""
    feed = Feed(studio.jobs.look, studio.leaving, LOOK_SECONDS)

    def events(request: Request) -> Response:
        return feed.response()

    def stop(request: Request, form: Form) -> Response:
        studio.jobs.stop(request.path_params["key"])
        page = urlsplit(request.headers.get("referer", "/"))
        return RedirectResponse(page._replace(scheme="", netloc="").geturl() or "/", 303)

    return [Route("/jobs/events", events), Route("/jobs/{key}/stop", with_form(stop), methods=["POST"])]
