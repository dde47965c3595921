"""What the room of datasets answers: the shelf, a table of clips, a clip, statistics, failures, sounds and pictures."""

import threading
from typing import NamedTuple, get_args

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from solfa.store.failed_recordings import failed_recordings
from solfa.store.shard_reader import Clip
from solfa.studio.context import Studio
from solfa.studio.datasets.clip_copies import CopyLookup
from solfa.studio.datasets.clip_page import clip_facts, heard_seconds, neighbours
from solfa.studio.datasets.clip_query import read_query
from solfa.studio.datasets.clip_sounds import Version
from solfa.studio.datasets.shelf import DatasetView, ShelvedDataset
from solfa.studio.pages import Room
from solfa.studio.replies import medium
from solfa.ui.html.charts import axis, code_charts, latent_chart, length_chart
from solfa.ui.html.picture import RANGE_DB, frequency_ticks, time_ticks
from solfa.ui.html.samples_page import CAPTIONS
from solfa.ui.html.tables import details_list, facts_list

SHOWN_COLUMNS = 3
"""Keys of the metadata that the table of clips shows beside captions."""


def dataset_room(studio: Studio) -> Room:
    """Make the room; what the first search needs is read while somebody looks at the first page."""
    threading.Thread(target=studio.shelf.prepare, name="prepare-search", daemon=True).start()
    answers = _Answers(studio)
    place = "/datasets/{name}"
    return Room(
        "Datasets",
        "/datasets",
        [
            Route("/datasets", answers.shelf),
            Route(place, answers.clips),
            Route(f"{place}/statistics", answers.statistics),
            Route(f"{place}/failures", answers.failures),
            Route(f"{place}/clip", answers.clip),
            Route(f"{place}/array.png", answers.array_picture),
            Route(f"{place}/{{version}}.flac", answers.sound),
            Route(f"{place}/{{version}}.png", answers.spectrogram),
        ],
    )


class _Named(NamedTuple):
    """The dataset that an address names, and how it is now."""

    shelved: ShelvedDataset
    view: DatasetView

    def clip(self, request: Request) -> Clip:
        clip_id = request.query_params.get("id", "")
        try:
            return self.view.dataset[clip_id]
        except KeyError:
            raise HTTPException(404, f"{self.shelved.name} has no clip {clip_id!r}") from None


class _Answers:
    def __init__(self, studio: Studio) -> None:
        self._shelf, self._pages, self._lookup = studio.shelf, studio.pages, CopyLookup()

    def _named(self, request: Request) -> _Named:
        shelved = self._shelf.find(request.path_params["name"])
        return _Named(shelved, shelved.view)

    def shelf(self, request: Request) -> Response:
        return self._pages.page(request, "datasets.html", shelf=list(self._shelf))

    def clips(self, request: Request) -> Response:
        shelved, view = self._named(request)
        query = read_query(request.query_params)
        columns = view.index.column_names()
        return self._pages.page(
            request,
            "clips.html",
            shelved=shelved,
            view=view,
            query=query,
            typed=request.query_params,
            found=view.index.find(query),
            columns=columns,
            shown=[column for column in columns if column not in CAPTIONS][:SHOWN_COLUMNS],
        )

    def statistics(self, request: Request) -> Response:
        shelved, view = self._named(request)
        report = view.report
        return self._pages.page(
            request,
            "statistics.html",
            shelved=shelved,
            view=view,
            note=report.statistics_note,
            facts=facts_list(report.facts),
            details=details_list(report.details),
            lengths=length_chart(report.lengths) if report.lengths and report.lengths.counts.sum() else None,
            codes=code_charts(report.codes) if report.codes and report.codes.num_codebooks else None,
            latents=latent_chart(report.latents) if report.latents and report.latents.num_channels else None,
        )

    def failures(self, request: Request) -> Response:
        shelved, view = self._named(request)
        recordings = failed_recordings(view.dataset.failures())
        return self._pages.page(request, "failures.html", shelved=shelved, view=view, recordings=recordings)

    def clip(self, request: Request) -> Response:
        named = self._named(request)
        clip = named.clip(request)
        whole = "whole" in request.query_params
        array = named.view.dataset.info.array
        seconds = heard_seconds(clip, whole=whole)
        before, after = neighbours(named.view.dataset, clip.id)
        return self._pages.page(
            request,
            "clip.html",
            shelved=named.shelved,
            view=named.view,
            clip=clip,
            facts=clip_facts(clip),
            array=array,
            versions=[v for v in get_args(Version) if v == "decoded" or named.shelved.sounds.has_original(clip)],
            is_cut=seconds < clip.seconds,
            seconds=seconds,
            whole=whole,
            copies=self._lookup.copies(named.view.dataset, clip.id) if "copies" in request.query_params else None,
            before=before,
            after=after,
            time_axis=axis(time_ticks(seconds)),
            khz=frequency_ticks(array.sample_rate),
            range_db=RANGE_DB,
        )

    def array_picture(self, request: Request) -> Response:
        named = self._named(request)
        return medium(request, named.shelved.sounds.array_picture(named.clip(request)), "image/png")

    def sound(self, request: Request) -> Response:
        named = self._named(request)
        whole = "whole" in request.query_params
        content = named.shelved.sounds.sound(named.clip(request), _version(request), whole=whole)
        return medium(request, content, "audio/flac")

    def spectrogram(self, request: Request) -> Response:
        named = self._named(request)
        whole = "whole" in request.query_params
        content = named.shelved.sounds.spectrogram(named.clip(request), _version(request), whole=whole)
        return medium(request, content, "image/png")


def _version(request: Request) -> Version:
    named: str = request.path_params["version"]
    for version in get_args(Version):
        if version == named:
            return version  # type: ignore[no-any-return]
    raise HTTPException(404, f"there is no {named!r} sound of a clip, only {' and '.join(get_args(Version))}")
