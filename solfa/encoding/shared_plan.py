"""Let one of several processes list a source and open its recordings; the others wait for what it writes.

    .tmp/lease-planning                     somebody is planning; a hint, like every lease
    .tmp/planned-<source>-000002-rank-3     rank 3 takes part in the third listing of this source
    .tmp/planned-<source>-000002.json       that listing is over: what it found

A rank takes part in the newest listing if it has had no part in it, and otherwise begins the next one. So the ranks of
a job share a listing, whoever comes first, and the next job, in which each rank has had its part, lists again. These
files are create-only. If a process dies while it plans, another plans in its place; if two plan, the first plan counts.
"""

import re
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter

from solfa.encoding.frozen_plan import PlanningReport
from solfa.environment.ranks import Rank
from solfa.files.crash_points import crash_point
from solfa.files.digest import value_sha256
from solfa.files.stores.place import Place, store_at
from solfa.files.whole_files import TEMPORARY
from solfa.store.lease import PLANNING, Lease

T = TypeVar("T")
POLL_SECONDS = 0.2
_NAME = re.compile(r"planned-([0-9a-f]+)-([0-9]{6,})(?:-rank-[0-9]+|\.json)")
_REPORT = TypeAdapter(PlanningReport)


def plan_together(
    root: Place, request: list[object], rank: Rank, plan: Callable[[], PlanningReport], waiting: Callable[[], None]
) -> PlanningReport:
    """Plan once for all ranks of a job; `request` is everything that decides what the plan will hold."""
    if rank.world_size == 1:
        return plan_one_at_a_time(root, lambda: None, plan, waiting)
    listing = _Listing.join(root, value_sha256([rank.world_size, *request])[:16], rank)

    def plan_and_tell() -> PlanningReport:
        report = plan()
        listing.finish(report)
        return report

    return plan_one_at_a_time(root, listing.result, plan_and_tell, waiting)


def plan_one_at_a_time(
    root: Place, found: Callable[[], T | None], plan: Callable[[], T], waiting: Callable[[], None]
) -> T:
    """Return what is `found`; as long as there is nothing, `plan`, unless another process is planning."""
    while (result := found()) is None:
        lease = Lease.take(root, PLANNING)
        if lease is None:
            waiting()
            time.sleep(POLL_SECONDS)
            continue
        with lease:
            # Another process may have finished since the look above.
            result = found()
            return plan() if result is None else result
    return result


class _Listing(NamedTuple):
    """One listing of a source, shared by the ranks of a job."""

    root: Place
    source: str
    number: int

    @classmethod
    def join(cls, root: Place, source: str, rank: Rank) -> "_Listing":
        """Take part in the newest listing, or in the next one if this rank has had its part in it."""
        number = max(_listings(root, source).values(), default=0)
        while not store_at(root).create(_key(source, number, f"-rank-{rank.rank}"), b""):
            number += 1
        crash_point("plan:joined")
        return cls(root, source, number)

    def result(self) -> PlanningReport | None:
        """Read what was found; None as long as nobody is through. A damaged file is as good as none."""
        try:
            return _REPORT.validate_json(store_at(self.root).read(_key(self.source, self.number, ".json")))
        except (FileNotFoundError, ValueError):
            return None

    def finish(self, report: PlanningReport) -> None:
        """Tell the other ranks what was found, and remove what is left of earlier listings."""
        store = store_at(self.root)
        store.create(_key(self.source, self.number, ".json"), _REPORT.dump_json(report))
        crash_point("plan:told")
        earlier = [name for name, number in _listings(self.root, self.source).items() if number < self.number]
        store.delete(f"{TEMPORARY}/{name}" for name in earlier)


def _key(source: str, number: int, ending: str) -> str:
    return f"{TEMPORARY}/planned-{source}-{number:06d}{ending}"


def _listings(root: Place, source: str) -> dict[str, int]:
    """Return the numbers of listings by the names of their files."""
    matches = (_NAME.fullmatch(name) for name in store_at(root).names(TEMPORARY))
    return {match[0]: int(match[2]) for match in matches if match and match[1] == source}
