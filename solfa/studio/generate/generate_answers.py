"""What the room of models answers: a form, a queue, what came of it, and files to hear and to download."""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from solfa.audio.probe import probe
from solfa.audio.reader import read_audio
from solfa.audio.recording import Location
from solfa.environment.teams import load_environment
from solfa.errors import SolfaError
from solfa.generate.catalogue import find_generator
from solfa.generate.generator import check_edits, check_options
from solfa.generate.request import check_files
from solfa.studio.context import Studio
from solfa.studio.forms import Form
from solfa.studio.generate.kept_models import KeptModels
from solfa.studio.generate.model_choice import ModelFacts, find_model, list_models
from solfa.studio.generate.take_folder import GIVEN, TYPES, Take, Takes, own_file
from solfa.studio.generate.wish import Asked
from solfa.studio.generate.wish_form import CONDITION, HOWS, OPTION, Typed, read_wish
from solfa.studio.job_queue import Job
from solfa.studio.replies import medium
from solfa.studio.uploads import is_sent, save_upload
from solfa.ui.drawn_clips import draw_and_write, refuse_semantics
from solfa.ui.html.charts import axis
from solfa.ui.html.picture import frequency_ticks, spectrogram_db, spectrogram_png, time_ticks
from solfa.ui.partial_clips import PartialSamples

PATH = "/generate"
SHOWN_TAKES = 8


class GenerateAnswers:
    """The handlers of the room."""

    def __init__(self, studio: Studio) -> None:
        self._studio, self._pages, self._jobs = studio, studio.pages, studio.jobs
        self._takes = Takes(studio.own_dir / "generated")
        self._kept = KeptModels()

    def show(self, request: Request) -> Response:
        return self._page(request, Typed.of(request.query_params.multi_items()))

    def ask(self, request: Request, form: Form) -> Response:
        assert isinstance(form, FormData)
        typed = Typed.of(form.multi_items())
        folder: Path | None = None
        try:
            facts = find_model(self._studio.xps_dir, typed.one("model"))
            if is_sent(upload := form.get("recording")):
                assert isinstance(upload, UploadFile)
                folder = self._takes.new_folder()
                typed["use"] = [f"{folder.name}/{GIVEN}/{save_upload(upload, folder / GIVEN).name}"]
            asked = read_wish(typed, facts, self._spelled(facts), lambda used: self._recording(used, folder))
            self._check(asked, facts)
        except SolfaError as error:
            if folder is not None:
                shutil.rmtree(folder)
                typed.pop("use", None)
            return self._page(request, typed, fault=str(error))
        take = self._takes.begin(folder or self._takes.new_folder(), asked)
        title = asked.text or facts.name
        self._jobs.add(title, lambda job: self._draw(job, take, facts.folder), take.key, _ender(take))
        return RedirectResponse(f"{typed.link(PATH)}#{take.key}", 303)

    def _spelled(self, facts: ModelFacts) -> str:
        """Name a model as the command line of this machine finds it."""
        is_usual = load_environment(os.environ).xps_dir.absolute() == self._studio.xps_dir.absolute()
        return facts.name if is_usual else str(facts.folder)

    def _recording(self, used: str, new: Path | None) -> Path:
        key, _, name = used.partition("/")
        return own_file(new if new is not None and key == new.name else self._takes.find(key).folder, name)

    def _check(self, asked: Asked, facts: ModelFacts) -> None:
        """Refuse now what can be refused before the model is loaded, as the command line does."""
        requests = asked.requests()
        check_files(requests)
        generator = find_generator(facts.solver)
        check_edits(generator, requests)
        check_options(generator, {name: value for name, value in asked.options.items() if name != "semantics"})

    def _draw(self, job: Job, take: Take, folder: Path) -> None:
        asked = take.asked
        job.say("loading the model")
        model = self._kept.get(folder, asked.epoch)
        refuse_semantics(model, asked.options.get("semantics"))
        job.say("generating")
        with contextlib.ExitStack() as stack:
            partial = PartialSamples(take.folder, model.provenance) if model.draws_samples else None
            if partial is not None:
                stack.enter_context(partial)
            extension = f".{asked.audio_format}"
            requests = asked.requests()
            for _ in draw_and_write(model, requests, asked.options, take.folder, extension, job.report, partial):
                job.check()

    def _page(self, request: Request, typed: Typed, fault: str | None = None) -> Response:
        models = list_models(self._studio.xps_dir)
        chosen = typed.one("model", models[0] if models else "")
        facts = None
        if chosen:
            try:
                facts = find_model(self._studio.xps_dir, chosen)
            except SolfaError as error:
                fault = fault or str(error)
        takes, older = self._takes.latest(SHOWN_TAKES, typed.one("before"))
        return self._pages.page(
            request,
            "generate.html",
            200 if fault is None else 400,
            models=models,
            chosen=chosen,
            facts=facts,
            typed=typed,
            fault=fault,
            hows=HOWS if facts and facts.edits else {"prompt": HOWS["prompt"]},
            condition_field=CONDITION,
            option_field=OPTION,
            shows_options=any(name.startswith((OPTION, "format")) for name in typed),
            source=self._source(typed),
            takes=[self._shown(take) for take in takes],
            older=older,
            jobs=self._jobs.under_way(),
            folder=str(self._takes.folder),
        )

    def _source(self, typed: Typed) -> dict[str, Any] | None:
        """Describe the recording that a wish starts from."""
        used = typed.one("use")
        if not used:
            return None
        path = self._recording(used, None)
        info = probe(Location(path, format_hint=path.suffix.lower()))
        seconds = info.num_samples / info.sample_rate
        key, _, name = used.partition("/")
        return {"use": used, "take": key, "file": name, "seconds": seconds, **_axes(seconds, info.sample_rate)}

    def _shown(self, take: Take) -> dict[str, Any]:
        job = self._jobs.find(take.key)
        state, note = (job.state, job.note) if job is not None else take.outcome
        clips = [{"clip": clip, **_axes(clip.seconds, clip.sample_rate)} for clip in take.clips()]
        return {"take": take, "job": job, "state": state, "note": note, "clips": clips}

    def file(self, request: Request) -> Response:
        path = own_file(self._takes.find(request.path_params["take"]).folder, request.path_params["file"])
        media_type = TYPES.get(path.suffix.lower(), "application/octet-stream")
        return FileResponse(path, media_type=media_type, headers={"cache-control": "private, no-cache"})

    def picture(self, request: Request) -> Response:
        """Draw a recording that was sent along."""
        path = own_file(self._takes.find(request.path_params["take"]).folder, request.query_params.get("file", ""))
        info = probe(Location(path, format_hint=path.suffix.lower()))
        levels = spectrogram_db(read_audio(path), info.sample_rate)
        return medium(request, spectrogram_png(levels, float(levels.max())), "image/png")


def _axes(seconds: float, sample_rate: int) -> dict[str, Any]:
    return {"time_axis": axis(time_ticks(seconds)), "khz": frequency_ticks(sample_rate)}


def _ender(take: Take) -> Any:
    return lambda job: take.end(job.state, job.note)
