"""Ranks of a job share one listing; whoever dies while planning is replaced."""

import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from solfa.encoding import shared_plan
from solfa.encoding.frozen_plan import PlanningReport
from solfa.encoding.shared_plan import plan_one_at_a_time, plan_together
from solfa.environment.ranks import Rank
from solfa.errors import StoreError
from solfa.store.gc import expect_nobody_at_work
from solfa.store.lease import PLANNING, Lease, lease_key

RANKS = [Rank(rank, 3, rank, 3) for rank in range(3)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_plan, "POLL_SECONDS", 0.01)


class Planner:
    """Counts how often the source was listed."""

    def __init__(self, root: Path) -> None:
        self.root, self.count = root, 0

    def plan(self) -> PlanningReport:
        self.count += 1
        return PlanningReport(recordings=7, new_clips=self.count, changed=["a.wav"], unplaced=2)

    def __call__(self, rank: Rank, request: str = "audio", waiting: Callable[[], None] = lambda: None) -> int:
        report = plan_together(self.root, [request], rank, self.plan, waiting)
        assert report == PlanningReport(7, report.new_clips, ["a.wav"], 2)
        return report.new_clips


def test_ranks_share_a_listing_and_the_next_job_lists_again(tmp_path: Path) -> None:
    planner = Planner(tmp_path)
    assert [planner(rank) for rank in RANKS] == [1, 1, 1]
    assert [planner(rank) for rank in reversed(RANKS)] == [2, 2, 2]
    assert planner(RANKS[0], "other") == 3
    assert planner(RANKS[1]) == 4, "ranks of another job are not those of this one"
    assert planner.count == 4
    names = {path.name.split("-")[2].removesuffix(".json") for path in (tmp_path / ".tmp").iterdir()}
    assert names == {"000000", "000002"}, "files of earlier listings are gone"


def test_a_single_process_lists_every_time(tmp_path: Path) -> None:
    planner = Planner(tmp_path)
    assert [planner(Rank()), planner(Rank())] == [1, 2]
    assert not list((tmp_path / ".tmp").iterdir())


def test_others_wait_for_the_one_that_plans(tmp_path: Path) -> None:
    planner, waited, begun = Planner(tmp_path), threading.Event(), threading.Event()

    def plan_slowly() -> PlanningReport:
        begun.set()
        assert waited.wait(30)
        with pytest.raises(StoreError, match="listing recordings"):
            expect_nobody_at_work(tmp_path)
        return planner.plan()

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(plan_together, tmp_path, ["audio"], RANKS[1], plan_slowly, lambda: None)
        assert begun.wait(30)
        assert planner(RANKS[0], waiting=waited.set) == 1
        assert slow.result().new_clips == 1
    expect_nobody_at_work(tmp_path)


def test_a_process_that_died_while_it_planned_is_replaced(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    planner = Planner(tmp_path)

    def die() -> PlanningReport:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan_together(tmp_path, ["audio"], RANKS[0], die, lambda: None)
    (tmp_path / lease_key(PLANNING)).write_text(f"{platform.node()} {gone.pid}")
    assert planner(RANKS[2]) == planner(RANKS[1]) == 1
    assert planner(RANKS[0]) == 2, "it had its part in the listing that it did not finish"


def test_a_damaged_result_is_as_good_as_none(tmp_path: Path) -> None:
    planner = Planner(tmp_path)
    planner(RANKS[0])
    (result,) = (tmp_path / ".tmp").glob("*.json")
    for content in ("", "[]", '{"recordings": "many"}'):
        result.write_text(content)
        assert shared_plan._Listing(tmp_path, result.name.split("-")[1], 0).result() is None
    assert planner(RANKS[1]) == 2


def test_a_lease_that_is_lost_leads_to_two_plans_at_worst(tmp_path: Path) -> None:
    done: list[str] = []

    def plan() -> str:
        (tmp_path / lease_key(PLANNING)).unlink()  # as if a clock were wrong
        done.append(plan_one_at_a_time(tmp_path, lambda: None, lambda: "other", lambda: None))
        return "mine"

    assert plan_one_at_a_time(tmp_path, lambda: None, plan, lambda: None) == "mine"
    assert done == ["other"]
    lease = Lease.take(tmp_path, PLANNING)
    assert lease is not None
    lease.release()
