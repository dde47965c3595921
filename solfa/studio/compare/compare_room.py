"""What the room of blind listening answers: no page, address or name of a sound says which is which."""

import secrets
import threading
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from solfa.errors import ConfigError, SolfaError
from solfa.studio.byte_cache import ByteCache
from solfa.studio.compare.clip_sides import ORIGINAL, AnchorSide, Side, find_side
from solfa.studio.compare.listening_test import (
    ListeningTest,
    ListeningTests,
    TestPlan,
    mean_ratings,
    paired_names,
    preference,
)
from solfa.studio.context import Studio
from solfa.studio.forms import Form, with_form
from solfa.studio.pages import Room
from solfa.studio.replies import medium
from solfa.xp.layout import SAMPLES
from solfa.xp.record import list_experiments

PATH = "/compare"
SHOWN_TESTS = 20
MOST_TRIALS = 200
USUAL_TRIALS = 12
MOST_SIDES = 8
REFERENCE = "reference"


def compare_room(studio: Studio) -> Room:
    """Make the room."""
    answers = _Answers(studio)
    return Room(
        "Compare",
        PATH,
        [
            Route(PATH, answers.all_tests, methods=["GET"]),
            Route(PATH, with_form(answers.begin), methods=["POST"]),
            Route(f"{PATH}/{{key}}", answers.trial, methods=["GET"]),
            Route(f"{PATH}/{{key}}", with_form(answers.answer), methods=["POST"]),
            Route(f"{PATH}/{{key}}/results", answers.results),
            Route(f"{PATH}/{{key}}/{{trial:int}}/{{place}}.flac", answers.sound),
        ],
    )


class _Answers:
    def __init__(self, studio: Studio) -> None:
        self._studio, self._pages = studio, studio.pages
        self._tests = ListeningTests(studio.own_dir / "compared")
        self._cache = ByteCache()
        self._lock = threading.Lock()
        self._sides: dict[tuple[str, str], Side] = {}

    def all_tests(self, request: Request) -> Response:
        return self._start(request, request.query_params)

    def _start(self, request: Request, typed: Mapping[str, Any], fault: str | None = None) -> Response:
        runs = [folder.name for folder in list_experiments(self._studio.xps_dir) if (folder / SAMPLES).is_dir()]
        names = [shelved.name for shelved in self._studio.shelf]
        return self._pages.page(
            request,
            "compare.html",
            200 if fault is None else 400,
            known=[*names, *(f"{name}{ORIGINAL}" for name in names), *runs],
            typed={name: value for name, value in typed.items() if isinstance(value, str)},
            usual=USUAL_TRIALS,
            most=MOST_TRIALS,
            tests=self._tests.latest(SHOWN_TESTS),
            file=str(self._tests.answers.path),
            fault=fault,
        )

    def begin(self, request: Request, form: Form) -> Response:
        try:
            plan = self._plan({name: str(value).strip() for name, value in form.items()})
        except SolfaError as error:
            return self._start(request, form, str(error))
        return RedirectResponse(f"{PATH}/{self._tests.begin(plan).key}", 303)

    def _plan(self, typed: Mapping[str, str]) -> TestPlan:
        named = {words: typed.get(words, "") for words in ("a", "b", REFERENCE)}
        for words in ("a", "b"):
            if not named[words]:
                raise ConfigError(f"{words}: expected what to compare: a dataset, a run or a folder")
        if named["a"] == named["b"]:
            raise ConfigError("a, b: expected two different sides, found the same twice")
        kind = typed.get("kind", "pair")
        if kind not in ("pair", "rating") or (kind == "rating" and not named[REFERENCE]):
            raise ConfigError("reference: ratings need one to be compared with; give it, or choose between two")
        num, seed = typed.get("num") or str(USUAL_TRIALS), typed.get("seed") or str(secrets.randbelow(2**32))
        if not num.isdecimal() or not 1 <= int(num) <= MOST_TRIALS:
            raise ConfigError(f"trials: expected a whole number from 1 to {MOST_TRIALS}, found {num!r}")
        if not seed.isdecimal():
            raise ConfigError(f"seed: expected a whole number, found {seed!r}")
        sides = {words: find_side(self._studio, text, words) for words, text in named.items() if text}
        return TestPlan(
            kind=kind,  # type: ignore[arg-type]
            a=named["a"],
            b=named["b"],
            reference=named[REFERENCE] or None,
            seed=int(seed),
            names=tuple(paired_names({words: side.names() for words, side in sides.items()})),
            num=int(num),
            listener=typed.get("listener", "")[:100],
        )

    def trial(self, request: Request) -> Response:
        test = self._tests.find(request.path_params["key"])
        number = test.next_trial()
        if number is None:
            return RedirectResponse(f"{PATH}/{test.key}/results", 303)
        return self._trial_page(request, test, number)

    def _trial_page(self, request: Request, test: ListeningTest, number: int, fault: str | None = None) -> Response:
        return self._pages.page(
            request,
            "trial.html",
            200 if fault is None else 400,
            # Only what may be known: neither the sides nor the seed is passed on.
            key=test.key,
            kind=test.plan.kind,
            number=number,
            total=len(test.trials),
            name=test.trials[number].name,
            places=range(1, len(test.trials[number].order) + 1),
            has_reference=test.plan.reference is not None,
            fault=fault,
        )

    def answer(self, request: Request, form: Form) -> Response:
        test = self._tests.find(request.path_params["key"])
        told = {name: str(value) for name, value in form.items()}
        number = test.next_trial()
        if number is None or told.get("trial") != str(number):  # answered already, in another tab or by a second click
            return RedirectResponse(f"{PATH}/{test.key}", 303)
        order = test.trials[number].order
        try:
            if test.plan.kind == "pair":
                chosen = told.get("chosen", "")
                if chosen not in ("1", "2", "none"):
                    raise ConfigError("choose 1 or 2, or say that you have no preference")
                test.note(number, preferred=None if chosen == "none" else order[int(chosen) - 1])
            else:
                ratings = [_rating(told.get(f"rating{place}", "")) for place in range(1, len(order) + 1)]
                test.note(number, ratings=dict(zip(order, ratings, strict=True)))
        except SolfaError as error:
            return self._trial_page(request, test, number, str(error))
        return RedirectResponse(f"{PATH}/{test.key}", 303)

    def results(self, request: Request) -> Response:
        test = self._tests.find(request.path_params["key"])
        answers, alike = test.answers(), test.alike()
        return self._pages.page(
            request,
            "compared.html",
            test=test,
            plan=test.plan,
            answers=answers,
            is_over=test.next_trial() is None,
            own=preference(answers),
            all=preference(alike) if len(alike) > len(answers) else None,
            ratings=mean_ratings(answers),
            file=str(self._tests.answers.path),
        )

    def sound(self, request: Request) -> Response:
        """Answer with what is heard at a place of a trial; its address says nothing else."""
        test = self._tests.find(request.path_params["key"])
        number, place = request.path_params["trial"], request.path_params["place"]
        if number >= len(test.trials):
            raise HTTPException(404, f"this test has no trial {number}")
        trial = test.trials[number]
        if place == REFERENCE and test.plan.reference is not None:
            stimulus: str = REFERENCE
        elif place.isdecimal() and 1 <= int(place) <= len(trial.order):
            stimulus = trial.order[int(place) - 1]
        else:
            raise HTTPException(404, f"this trial has no sound {place!r}")
        key = (test.key, number, stimulus)
        content = self._cache.get(key, lambda: self._side(test, stimulus).sound(trial.name))
        return medium(request, content, "audio/flac")

    def _side(self, test: ListeningTest, stimulus: str) -> Side:
        """Find a side of a test; the last few stay, because all clips of a large dataset are listed for it."""
        key = (test.key, stimulus)
        with self._lock:
            if key not in self._sides:
                while len(self._sides) >= MOST_SIDES:
                    del self._sides[next(iter(self._sides))]
                self._sides[key] = self._find_side(test.plan, stimulus)
            return self._sides[key]

    def _find_side(self, plan: TestPlan, stimulus: str) -> Side:
        if stimulus in ("a", "b"):
            return find_side(self._studio, plan.a if stimulus == "a" else plan.b, stimulus)
        assert plan.reference is not None
        reference = find_side(self._studio, plan.reference, REFERENCE)
        return reference if stimulus == REFERENCE else AnchorSide(reference)


def _rating(text: str) -> int:
    if not text.isdecimal() or int(text) > 100:
        raise ConfigError(f"ratings: expected whole numbers from 0 to 100 for all, found {text!r}")
    return int(text)
