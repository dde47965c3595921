"""Judge one set of clips: which measures apply to it, and what is known of every clip."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from solfa.codecs.embedders.protocol import Embedder, HearsText
from solfa.errors import ConfigError
from solfa.evaluate.clip_faults import clip_facts
from solfa.evaluate.clip_sets import ClipSet, Judged, of_clips, of_dataset, of_model, open_place
from solfa.evaluate.copies import COPY_MEASURES, Sounds, copy_bounds, copy_scores
from solfa.evaluate.embedding_cache import Crew, EmbeddedSet, FellOut, embed
from solfa.evaluate.evaluation import ClipScore, Evaluation
from solfa.evaluate.measures import (
    Measure,
    finite,
    mean_measure,
    measure_fad,
    measure_fad_infinity,
    measure_kad,
    measure_kld,
)
from solfa.evaluate.memorisation import with_nearest
from solfa.evaluate.model_bits import model_bits
from solfa.files.stores.place import read_place
from solfa.generate.model import Model, load_model
from solfa.store.dataset import Dataset
from solfa.store.layout import is_dataset
from solfa.xp.layout import BEST, CONFIG
from solfa.xp.record import NoSuchExperimentError

MetricName = Literal["kad", "fad", "fad_infinity", "kld", "clap", "si_sdr", "mel", "visqol", "pesq", "stoi", "bits"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
OFTEN: tuple[MetricName, ...] = ("kad", "kld", "clap", "si_sdr", "mel")
"""What is measured if nothing is asked for, as far as it applies."""

OnClip = Callable[[str, int, int], None]
"""Called with what is being done, how many clips are done, and how many there are."""


@dataclass(frozen=True)
class EvaluationTask:
    """What stays the same for every set that is judged."""

    wanted: tuple[MetricName, ...]
    is_asked: bool
    """A measure that was asked for and does not apply is an error; of the usual ones it is left out."""
    embedder: Embedder
    spec: str | Embedder
    crew: Crew
    draw: Mapping[str, Any]
    seed: int
    trust_code: bool
    on_clip: OnClip

    def embed(self, clips: ClipSet) -> EmbeddedSet:
        return embed(clips, self.spec, self.crew, self.embedder)

    def judge(self, judged: Judged, real: ClipSet, known: EmbeddedSet, noise: EmbeddedSet | None) -> Evaluation:
        """Measure one set."""
        model = self._model(judged)
        clips = self._gather(judged, model, real)
        found = self.embed(clips)
        pairs = _pairs(found, known)
        scores: dict[str, NDArray[np.float64]] = {}
        measures = [*self._distances(known, found, noise, pairs, scores)]
        measures += self._texts(clips, real, found, known, noise, scores)
        measures += self._copies(clips, real, found, known, pairs, scores)
        bits = self._bits(model, real, known) if "bits" in self.wanted else {}
        scored = self._clip_scores(clips, found, known, pairs, scores)
        if model is not None:
            told = partial(self.on_clip, "decoding training clips")
            scored = with_nearest(scored, model.trained.folder, model.codec, Sounds(clips.source()), told)
        by = next((name for name in ("mel", "kld", "closeness", "clap") if name in scores), "closeness")
        return Evaluation(
            clips.name,
            real.name,
            self.embedder.name,
            self.embedder.fingerprint,
            tuple(measures),
            scored,
            _fallen(found, known),
            by,
            self.seed,
            bits=bits,
            sounds=None if clips.kind == "embeddings" else clips.place,
            reference_sounds=None if real.kind == "embeddings" else real.place,
        )

    def _model(self, judged: Judged) -> Model | None:
        if isinstance(judged, Model):
            return judged
        if isinstance(judged, str | Path):
            path = Path(judged).expanduser()
            is_model = (path / CONFIG).is_file() and any((path / n).is_file() for n in (BEST, "model.safetensors"))
            if is_model or not (path.exists() or is_dataset(read_place(judged))):
                return self._load(judged)
        return None

    def _load(self, judged: str | Path) -> Model:
        try:
            return load_model(judged, device=self.crew.device, trust_code=self.trust_code)
        except NoSuchExperimentError as error:
            raise ConfigError(f"`clips`: no folder, file or dataset is called {judged}; as a model, {error}") from error

    def _gather(self, judged: Judged, model: Model | None, real: ClipSet) -> ClipSet:
        if model is not None:
            told = lambda done, total: self.on_clip("generating", done, total)  # noqa: E731
            name = os.path.normpath(str(judged)) if isinstance(judged, str | Path) else str(model.trained.folder.name)
            return of_model(model, name, real.captions, on_clip=told, **self.draw)
        if isinstance(judged, Dataset):
            return of_dataset(judged, lambda done, total: self.on_clip("decoding", done, total))
        if isinstance(judged, str | Path):
            return existing(judged, "clips")
        if not judged:
            raise ConfigError("`clips`: expected at least one clip, found none")
        assert not isinstance(judged, Model)
        return of_clips(judged)

    def _distances(
        self,
        known: EmbeddedSet,
        found: EmbeddedSet,
        noise: EmbeddedSet | None,
        pairs: Sequence[tuple[int, int]],
        scores: dict[str, NDArray[np.float64]],
    ) -> list[Measure]:
        for name, some in (("`clips`", found), ("`reference`", known)):
            if len(some) < 2 and {"kad", "fad", "fad_infinity"} & {*self.wanted}:
                raise ConfigError(f"{name}: expected at least 2 recordings to compare distributions, found {len(some)}")
        measures = []
        if "kad" in self.wanted:
            measure, sums = measure_kad(known, found, noise, self.seed)
            measures.append(measure)
            scores["closeness"] = sums.closeness()
        if "fad" in self.wanted:
            measures.append(measure_fad(known, found, noise, self.seed))
        if "fad_infinity" in self.wanted:
            measures.append(measure_fad_infinity(known, found, noise, self.seed))
        needs = "an embedder that is a tagger, and clips called as recordings of the reference"
        if "kld" in self.wanted and self._applies("kld", bool(self.embedder.tags and pairs), needs):
            of_known, of_found = known.select([row for row, _ in pairs]), found.select([row for _, row in pairs])
            measure, each = measure_kld(of_known, of_found, noise, self.seed)
            measures.append(measure)
            scores["kld"] = _spread(each, [row for _, row in pairs], len(found))
        return measures

    def _applies(self, name: str, is_there: bool, needs: str) -> bool:
        if not is_there and self.is_asked:
            raise ConfigError(f"`metrics={name}`: it needs {needs}; leave it out, or pass that")
        return is_there

    def _texts(
        self,
        clips: ClipSet,
        real: ClipSet,
        found: EmbeddedSet,
        known: EmbeddedSet,
        noise: EmbeddedSet | None,
        scores: dict[str, NDArray[np.float64]],
    ) -> list[Measure]:
        if "clap" not in self.wanted:
            return []
        hears = isinstance(self.embedder, HearsText) and "clap" in str(self.embedder.description.get("family"))
        if not self._applies("clap", hears, "a CLAP as `embedder`"):
            return []
        captions = {**real.captions, **clips.captions}
        if not self._applies("clap", any(key in captions for key in found.keys), "clips with captions"):
            return []
        assert isinstance(self.embedder, HearsText)
        scores["clap"] = _agreement(self.embedder, found, captions)
        floor = _agreement(self.embedder, known, real.captions)
        ceiling = None
        if noise is not None:
            texts = [captions[key] for key in found.keys if key in captions]
            ceiling = _noise_agreement(self.embedder, noise, texts)
        measure = mean_measure("clap", scores["clap"], self.seed, higher_is_better=True)
        reached = float(np.nanmean(floor)) if np.isfinite(floor).any() else None
        return [replace(measure, num_reference=len(known), floor=reached, ceiling=ceiling)]

    def _copies(
        self,
        clips: ClipSet,
        real: ClipSet,
        found: EmbeddedSet,
        known: EmbeddedSet,
        pairs: Sequence[tuple[int, int]],
        scores: dict[str, NDArray[np.float64]],
    ) -> list[Measure]:
        names = [name for name in self.wanted if name in COPY_MEASURES]
        can_read = "embeddings" not in (clips.kind, real.kind)
        is_generated = clips.kind == "generated" and not self.is_asked
        if (
            not names
            or is_generated
            or not self._applies(names[0], can_read and bool(pairs), "copies of the reference")
        ):
            return []
        keys = [(known.ids[one], found.ids[other]) for one, other in pairs]
        originals = Sounds(real.source())
        each = copy_scores(keys, originals, Sounds(clips.source()), names)
        rows = []
        self.on_clip("comparing copies", 0, len(keys))
        for done, row in enumerate(each, 1):
            rows.append(row)
            self.on_clip("comparing copies", done, len(keys))
        told = partial(self.on_clip, "comparing originals and noise")
        bounds = copy_bounds([original for original, _ in keys], originals, names, told)
        places = [row for _, row in pairs]
        measures = []
        for name in names:
            values = _spread(np.array([row[name] for row in rows]), places, len(found))
            about = COPY_MEASURES[name]
            measure = mean_measure(name, values, self.seed, unit=about.unit, higher_is_better=about.higher_is_better)
            if self._applies(name, measure.num_recordings > 0, "copies as long as their originals, and with sound"):
                scores[name] = values
                floor, ceiling = map(finite, bounds[name])
                measures.append(replace(measure, num_reference=len(known), floor=floor, ceiling=ceiling))
        return measures

    def _bits(self, model: Model | None, real: ClipSet, known: EmbeddedSet) -> Mapping[str, Any]:
        if model is None or real.kind == "embeddings":
            raise ConfigError("`metrics=bits`: it needs a model and a reference of audio; leave it out, or pass these")
        told = lambda done, total: self.on_clip("counting bits", done, total)  # noqa: E731
        return model_bits(model, Sounds(real.source()), known.ids, real.captions, self.draw, told)

    def _clip_scores(
        self,
        clips: ClipSet,
        found: EmbeddedSet,
        known: EmbeddedSet,
        pairs: Sequence[tuple[int, int]],
        scores: Mapping[str, NDArray[np.float64]],
    ) -> tuple[ClipScore, ...]:
        sounds = None if clips.kind == "embeddings" else Sounds(clips.source())
        pair_of = {other: known.ids[one] for one, other in pairs}
        expected = float(self.draw["seconds"]) if clips.kind == "generated" else None
        rows = []
        for row, clip_id in enumerate(found.ids):
            facts = {}
            if sounds is not None:
                audio, rate = sounds.read(clip_id)
                facts = clip_facts(audio, rate, expected).as_dict()
                self.on_clip("looking for faults", row + 1, len(found))
            each = {name: float(values[row]) for name, values in scores.items()}
            rows.append(ClipScore(clip_id, each, facts, clips.captions.get(found.keys[row]), pair_of.get(row)))
        return tuple(rows)


def _pairs(found: EmbeddedSet, known: EmbeddedSet) -> list[tuple[int, int]]:
    """Pair recordings of one name: rows of the reference and of the set, ordered by name."""
    rows = {key: row for row, key in enumerate(known.keys)}
    return [(rows[key], row) for row, key in enumerate(found.keys) if key in rows]


def _spread(values: NDArray[np.float64], rows: Sequence[int], count: int) -> NDArray[np.float64]:
    spread = np.full(count, np.nan)
    spread[list(rows)] = values
    return spread


def _agreement(embedder: HearsText, clips: EmbeddedSet, captions: Mapping[str, str]) -> NDArray[np.float64]:
    """Return the cosine between each clip and its caption; NaN without one."""
    rows = [row for row, key in enumerate(clips.keys) if key in captions]
    if not rows:
        return np.full(len(clips), np.nan)
    texts = embedder.embed_texts([captions[clips.keys[row]] for row in rows])
    sounds = torch.nn.functional.normalize(torch.from_numpy(clips.of_recordings(clips.frames)[rows]), dim=-1)
    return _spread((sounds * texts.double()).sum(dim=-1).numpy(), rows, len(clips))


def _noise_agreement(embedder: HearsText, noise: EmbeddedSet, texts: Sequence[str]) -> float:
    sounds = torch.nn.functional.normalize(torch.from_numpy(noise.of_recordings(noise.frames)), dim=-1)
    return float((sounds @ embedder.embed_texts(list(texts)).double().T).mean())


def _fallen(*sets: EmbeddedSet) -> tuple[FellOut, ...]:
    return tuple(dict.fromkeys(fallen for some in sets for fallen in some.fell_out))


def existing(place: str | Path, parameter: str) -> ClipSet:
    """Open a place that was named; nothing is not the current folder."""
    if not str(place):
        raise ConfigError(f"`{parameter}`: expected a path, found nothing; is a variable unset?")
    return open_place(place)
