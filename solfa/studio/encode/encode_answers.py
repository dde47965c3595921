"""What the room of encoding answers: a form for files, how far each dataset is, and both sounds of its clips."""

import itertools
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from solfa.codecs.catalogue import NAMES, load_codec
from solfa.codecs.spec import parse_spec
from solfa.encoding.api import encode
from solfa.encoding.progress import Totals
from solfa.errors import ConfigError, SolfaError
from solfa.generate.trained_folder import read_solver
from solfa.spelling import plural
from solfa.store.schema import DatasetInfo
from solfa.studio.context import Studio
from solfa.studio.encode.encoding_folder import Encoding, Encodings
from solfa.studio.forms import Form
from solfa.studio.job_queue import Job
from solfa.studio.uploads import MOST_BYTES, is_sent
from solfa.ui.html.charts import axis
from solfa.ui.html.picture import frequency_ticks, time_ticks
from solfa.xp.record import list_experiments

PATH = "/encode"
SHOWN_CLIPS = 6
USUAL_CODEC, EMBEDDER = "solfa_24khz", "embedder"


class JobListener:
    """Tells a page what `solfa encode` tells the terminal; somebody who presses Stop ends the run in order."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def settled(self, info: DatasetInfo, *, is_new: bool) -> None:
        self._job.check()

    def waiting(self) -> None:
        self._job.check()

    def listing(self, objects: int) -> None:
        self._job.check()

    def planning(self, recordings: int) -> None:
        self._job.say(f"looking at {plural(recordings, 'recording')}")

    def loading(self, encoders: int) -> None:
        self._job.say("loading the codec")

    def encoding(self, done: Totals, clips: int, seconds: float) -> None:
        self._job.say(f"{done.clips} of {plural(clips, 'clip')}")
        self._job.report(done.clips, clips)


class EncodeAnswers:
    """The handlers of the room."""

    def __init__(self, studio: Studio, encodings: Encodings) -> None:
        self._studio, self._pages, self._jobs, self._encodings = studio, studio.pages, studio.jobs, encodings

    def show(self, request: Request) -> Response:
        return self._page(request, request.query_params)

    def take(self, request: Request, form: Form) -> Response:
        """Keep the files that were sent, and encode them when it is their turn."""
        assert isinstance(form, FormData)
        typed = {name: value.strip() for name, value in form.items() if isinstance(value, str)}
        codec = typed.get("codec") or USUAL_CODEC
        try:
            if parse_spec(codec).head == EMBEDDER:
                raise ConfigError("codec: an embedder cannot decode, so there would be nothing to hear; choose a codec")
            load_codec(codec)  # refused now, not when its turn comes
            sent = [one for one in form.getlist("files") if is_sent(one)]
            uploads = [one for one in sent if isinstance(one, UploadFile)]
            encoding = self._encodings.begin(typed.get("name", ""), codec, uploads)
        except SolfaError as error:
            return self._page(request, typed, str(error))
        self._begin(encoding)
        return RedirectResponse(f"{PATH}#{encoding.name}", 303)

    def resume(self, request: Request, form: Form) -> Response:
        """Go on with a dataset that was stopped."""
        encoding = self._encodings.find(request.path_params["name"])
        job = self._jobs.find(encoding.key)
        if job is None or job.state not in ("waiting", "running"):
            self._begin(encoding)
        return RedirectResponse(f"{PATH}#{encoding.name}", 303)

    def _begin(self, encoding: Encoding) -> None:
        self._jobs.add(encoding.name, lambda job: self._encode(job, encoding), encoding.key)

    def _encode(self, job: Job, encoding: Encoding) -> None:
        job.say("beginning")
        encode(encoding.audio, encoding.dataset, codec=encoding.codec, listener=JobListener(job))
        self._studio.shelf.add(encoding.dataset, [encoding.audio])

    def _page(self, request: Request, typed: Mapping[str, str], fault: str | None = None) -> Response:
        return self._pages.page(
            request,
            "encode.html",
            200 if fault is None else 400,
            codecs=[*(name for name in NAMES if name != EMBEDDER), *self._trained()],
            usual=USUAL_CODEC,
            typed=dict(typed),
            most_bytes=MOST_BYTES,
            encodings=[self._shown(encoding) for encoding in self._encodings],
            folder=str(self._encodings.folder),
            fault=fault,
        )

    def _trained(self) -> list[str]:
        """List the codecs that were trained here."""
        found = []
        for folder in list_experiments(self._studio.xps_dir):
            try:
                if read_solver(folder) == "compression":
                    found.append(f"//sig/{folder.name}")
            except (ConfigError, OSError):  # one broken folder does not take the others from the list
                continue
        return found

    def _shown(self, encoding: Encoding) -> dict[str, Any]:
        job = self._jobs.find(encoding.key)
        state = job.state if job is not None else "done" if encoding.is_finished else "stopped"
        shown: dict[str, Any] = {
            "encoding": encoding,
            "job": job,
            "state": state,
            "note": job.note if job is not None else "",
            "when": time.strftime("%d %b %Y, %H:%M", time.localtime(encoding.time)),
            "clips": [],
        }
        if state == "done":
            shown |= self._heard(encoding)
        return shown

    def _heard(self, encoding: Encoding) -> dict[str, Any]:
        shelved = self._studio.shelf.add(encoding.dataset, [encoding.audio])
        dataset = shelved.view.dataset
        place = f"/datasets/{quote(shelved.name, safe='')}"
        clips = [
            {
                "id": clip.id,
                "seconds": clip.seconds,
                "query": f"?id={quote(clip.id, safe='')}",
                "time_axis": axis(time_ticks(clip.seconds)),
                "khz": frequency_ticks(dataset.info.array.sample_rate),
            }
            for clip in itertools.islice(dataset, SHOWN_CLIPS)
        ]
        failed = len(list(dataset.failures()))
        return {"clips": clips, "place": place, "num_clips": len(dataset), "failed": failed}
