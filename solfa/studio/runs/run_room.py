"""What the room of runs answers: all of them, one of them as it goes on, what differs between some, stop and resume."""

import re
import time
from collections.abc import Callable
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from solfa.files.tail import follow_lines
from solfa.studio.context import Studio
from solfa.studio.events import Feed
from solfa.studio.pages import Room
from solfa.studio.runs.curves import compared_charts, metric_charts, summary
from solfa.studio.runs.run_processes import RunProcesses
from solfa.studio.runs.run_state import evidence_sentence, find_run, glance, glance_at_all, is_askable, run_state
from solfa.studio.runs.sample_grid import SUFFIXES, sample_file, sample_grid
from solfa.studio.runs.settings_differences import differing, flat_settings
from solfa.ui.terminal.experiment_tables import ago, epochs
from solfa.xp.layout import EVIDENCE_PAGE
from solfa.xp.record import list_experiments, read_experiment

LOG_LINES = 60
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def run_room(studio: Studio) -> Room:
    """Make the room."""
    answers = _Answers(studio)
    place = "/runs/{signature}"
    return Room(
        "Runs",
        "/runs",
        [
            Route("/runs", answers.runs),
            Route("/runs/events", answers.all_events),
            Route("/runs/differences", answers.differences),
            Route(place, answers.run),
            Route(f"{place}/events", answers.events),
            Route(f"{place}/samples/{{epoch:int}}/{{name}}", answers.sample),
            Route(f"{place}/stop", answers.stop, methods=["POST"]),
            Route(f"{place}/resume", answers.resume, methods=["POST"]),
        ],
    )


class _Answers:
    def __init__(self, studio: Studio) -> None:
        self._studio = studio
        self._processes = RunProcesses(studio.dora_dir)
        self._all_feed = Feed(lambda: glance_at_all(studio.xps_dir, self._processes), studio.leaving)
        self._feeds: dict[str, Feed] = {}

    def _folder(self, request: Request) -> Path:
        return find_run(self._studio.xps_dir, request.path_params["signature"])

    def runs(self, request: Request) -> Response:
        now = time.time()
        records = [read_experiment(folder) for folder in list_experiments(self._studio.xps_dir)]
        rows = [
            {
                "record": record,
                "state": run_state(record, self._processes, now),
                "epochs": epochs(record),
                "changed": ago(record.changed, now),
                **summary(record),
            }
            for record in records
        ]
        return self._studio.pages.page(request, "runs.html", rows=rows, xps_dir=str(self._studio.xps_dir))

    def run(self, request: Request) -> Response:
        record, now = read_experiment(self._folder(request)), time.time()
        lines = follow_lines(record.log, lambda: False, last=LOG_LINES) if record.log.is_file() else ()
        return self._studio.pages.page(
            request,
            "run.html",
            record=record,
            state=run_state(record, self._processes, now),
            epochs=epochs(record),
            can_generate=is_askable(record),
            evidence=evidence_sentence(record.folder),
            evidence_page=str(record.folder / EVIDENCE_PAGE),
            changed=ago(record.changed, now),
            charts=metric_charts(record.history),
            grid=sample_grid(record.folder, is_whole="all" in request.query_params),
            log=[_COLOURS.sub("", line) for line in lines],
            settings=flat_settings(record.config),
            others=[folder.name for folder in list_experiments(self._studio.xps_dir) if folder != record.folder],
        )

    def differences(self, request: Request) -> Response:
        chosen = list(dict.fromkeys(request.query_params.getlist("run")))
        records = [read_experiment(find_run(self._studio.xps_dir, signature)) for signature in chosen]
        if len(records) < 2:
            raise HTTPException(400, f"choose at least two runs to compare, found {len(records)}")
        configs = [record.config for record in records]
        charts = compared_charts(records)
        return self._studio.pages.page(
            request, "differences.html", records=records, rows=differing(configs), charts=charts
        )

    def sample(self, request: Request) -> Response:
        path = sample_file(self._folder(request), request.path_params["epoch"], request.path_params["name"])
        if path is None:
            raise HTTPException(404, "there is no such clip")
        return FileResponse(path, media_type=SUFFIXES[path.suffix], headers={"cache-control": "private, no-cache"})

    def all_events(self, request: Request) -> Response:
        return self._all_feed.response()

    def events(self, request: Request) -> Response:
        folder = self._folder(request)
        own = Feed(lambda: glance(folder, self._processes), self._studio.leaving)
        return self._feeds.setdefault(folder.name, own).response()

    def stop(self, request: Request) -> Response:
        return self._act(request, self._processes.stop)

    def resume(self, request: Request) -> Response:
        return self._act(request, self._processes.resume)

    def _act(self, request: Request, act: Callable[[Path], None]) -> Response:
        folder = self._folder(request)
        act(folder)
        return RedirectResponse(f"/runs/{folder.name}", 303)
