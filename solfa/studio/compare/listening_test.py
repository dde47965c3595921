"""A listening test: what it compares, how far somebody is, and what came of it.

compared/
  3fa2c1d4/test.json    what is compared, and the seed of the order; written once
  answers.jsonl         the answers of all tests

How far a test is follows from the answers, so that it goes on after a restart where it was.
"""

import json
import re
import secrets
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field
from starlette.exceptions import HTTPException

from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.files.whole_files import replace_atomically
from solfa.ops.binomial_interval import binomial_interval
from solfa.ops.recording_bootstrap import Interval
from solfa.studio.compare.answers_file import AnswersFile
from solfa.studio.compare.trials import STIMULI, Kind, Stimulus, Trial, plan_trials

TEST, ANSWERS = "test.json", "answers.jsonl"
_KEY = re.compile(r"[0-9a-f]{8}")


class TestPlan(Config):
    """What a test compares; everything heard follows from it."""

    __test__ = False  # for pytest

    kind: Kind
    a: str
    b: str
    reference: str | None = None
    """What can be heard as the goal; a test with ratings needs it."""
    seed: int
    names: tuple[str, ...] = Field(min_length=1)
    num: int = Field(ge=1)
    listener: str = ""

    def trials(self) -> list[Trial]:
        """Say what is heard, trial by trial."""
        return plan_trials(self.names, self.kind, self.seed, self.num)


class Preference(NamedTuple):
    """How often one of two was preferred."""

    a: int
    b: int
    neither: int

    @property
    def decided(self) -> int:
        return self.a + self.b

    @property
    def interval(self) -> Interval:
        """The 95 % interval of how often the first is preferred, among those who preferred one."""
        return binomial_interval(self.a, self.decided)


def preference(answers: Iterable[Mapping[str, Any]]) -> Preference:
    """Count preferences; of ratings, the higher of the two."""
    counts = {"a": 0, "b": 0, None: 0}
    for answer in answers:
        counts[_preferred(answer)] += 1
    return Preference(counts["a"], counts["b"], counts[None])


def _preferred(answer: Mapping[str, Any]) -> str | None:
    if "ratings" not in answer:
        return answer["preferred"]  # type: ignore[no-any-return]
    a, b = (answer["ratings"][side] for side in ("a", "b"))
    return None if a == b else "a" if a > b else "b"


def mean_ratings(answers: Sequence[Mapping[str, Any]]) -> dict[Stimulus, float]:
    """Average the ratings of everything that was heard."""
    rated = [answer["ratings"] for answer in answers if "ratings" in answer]
    return {one: statistics.fmean(ratings[one] for ratings in rated) for one in STIMULI["rating"]} if rated else {}


class ListeningTest:
    """A test of one listener."""

    def __init__(self, key: str, plan: TestPlan, began: float, answers: AnswersFile) -> None:
        self.key, self.plan, self.began, self._answers = key, plan, began, answers
        self.trials = plan.trials()

    def answers(self) -> list[dict[str, Any]]:
        """List what was answered, in order."""
        return [answer for answer in self._answers if answer.get("test") == self.key]

    def alike(self) -> list[dict[str, Any]]:
        """List the answers of all tests that compare the same, whoever listened."""
        mine = (self.plan.a, self.plan.b, self.plan.kind)
        return [answer for answer in self._answers if (answer.get("a"), answer.get("b"), answer.get("kind")) == mine]

    def next_trial(self) -> int | None:
        """Return the number of the first trial without an answer; None if all have one."""
        done = {answer["trial"] for answer in self.answers()}
        return next((number for number in range(len(self.trials)) if number not in done), None)

    def note(self, number: int, **answer: Any) -> None:
        """Append an answer; one that is there already stays."""
        if number != self.next_trial():
            return
        trial = self.trials[number]
        about = {"test": self.key, "time": time.time(), "listener": self.plan.listener, "kind": self.plan.kind}
        about |= {"a": self.plan.a, "b": self.plan.b, "reference": self.plan.reference, "seed": self.plan.seed}
        self._answers.append({**about, "trial": number, "clip": trial.name, "order": list(trial.order), **answer})


class ListeningTests:
    """All tests of a studio, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers = AnswersFile(folder / ANSWERS)

    def begin(self, plan: TestPlan) -> ListeningTest:
        """Begin a test."""
        key = secrets.token_hex(4)
        (self.folder / key).mkdir(parents=True)
        content = {"time": time.time(), "plan": plan.model_dump(mode="json")}
        replace_atomically(self.folder / key / TEST, json.dumps(content, indent=2, ensure_ascii=False).encode())
        return self.find(key)

    def find(self, key: str) -> ListeningTest:
        """Find a test by its name in an address; it is a page that is not there if there is none."""
        path = self.folder / key / TEST
        if not _KEY.fullmatch(key) or not path.is_file():
            raise HTTPException(404, f"there is no listening test {key!r}")
        written = json.loads(path.read_text("utf-8"))
        return ListeningTest(key, parse_config(TestPlan, written["plan"], TEST), written["time"], self.answers)

    def latest(self, count: int) -> list[ListeningTest]:
        """List tests, the latest first."""
        if not self.folder.is_dir():
            return []
        keys = [
            child.name for child in self.folder.iterdir() if (child / TEST).is_file() and _KEY.fullmatch(child.name)
        ]
        return sorted(map(self.find, keys), key=lambda test: test.began, reverse=True)[:count]


def paired_names(sides: Mapping[str, Sequence[str]]) -> list[str]:
    """List the names that all sides have; it is an error if there are none."""
    common = set.intersection(*map(set, sides.values()))
    if not common:
        found = "; ".join(f"{words} has {', '.join(names[:3]) or 'no clips'}" for words, names in sides.items())
        raise ConfigError(f"expected clips with the same names on all sides, found none: {found}")
    return sorted(common)
