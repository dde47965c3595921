"""Made by several at once, killed at named points and at random, a dataset ends the same, byte for byte."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.ready_process import ReadyProcess

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def crash_points() -> list[str]:
    """Every point that the code names, so that a new one is tested without being listed here."""
    names = set()
    for folder in ("store", "files", "encoding"):
        for path in sorted((ROOT / "solfa" / folder).glob("*.py")):
            names |= set(re.findall(r'crash_point\("([^"]+)"\)', path.read_text()))
    return sorted(names)


RANDOM_KILLS = 25
REPAIRS = ["repair:before-file", "repair:after-file", "repair:after-file#3", "shard:before-commit#2", "shard:claimed"]


@pytest.fixture(scope="module")
def outcome(ready: ReadyProcess, several_shards: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    encoding = [name for name in crash_points() if not name.startswith("repair:")]
    points = [*encoding, "publish:before-link#4", "shard:before-commit#2", "shard:after-commit#3"]
    work, answer = tmp_path_factory.mktemp("kills"), tmp_path_factory.mktemp("answer") / "outcome.json"
    asked = [json.dumps(points), RANDOM_KILLS, json.dumps(REPAIRS), answer]
    run = ready.start(several_shards, work, *asked, module="tests.integration.kill_driver")
    assert run.wait(600) == 0, run.output  # the time is only against hanging
    found: dict[str, Any] = json.loads(answer.read_text())
    return found


def test_the_clean_run_has_several_shards_and_no_problem(outcome):
    assert outcome["shards"] >= 3
    assert outcome["clean_problems"] == []


def test_two_terminals_at_once_and_two_ranks_give_the_bytes_of_one_process(outcome):
    assert outcome["terminals"] and outcome["ranks"]


def test_a_kill_at_any_named_point_loses_nothing_and_changes_no_byte(outcome):
    assert len(outcome["points"]) >= 12
    expected = {"killed": True, "problems": [], "finished": True, "same": True}
    assert outcome["points"] == dict.fromkeys(outcome["points"], expected)


def test_random_kills_lose_nothing_and_change_no_byte(outcome):
    assert outcome["random"] == {"kills": RANDOM_KILLS, "problems": [], "different": 0, "finished": True}


def test_a_killed_repair_loses_nothing_more_and_the_next_one_finishes_it(outcome):
    assert {name for name in crash_points() if name.startswith("repair:")} <= set(REPAIRS)
    expected = {"killed": True, "lost more": [], "repaired": True, "same": True}
    assert outcome["repairs"] == dict.fromkeys(REPAIRS, expected)
