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
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter

from solfa.encoding.frozen_plan import PlanningReport
from solfa.environment.ranks import Rank
from solfa.files.crash_points import crash_point
from solfa.files.digest import value_sha256
from solfa.files.whole_files import TEMPORARY, create_once, remove_files
from solfa.store.lease import PLANNING, Lease

T = TypeVar("T")
POLL_SECONDS = 0.2
_NAME = re.compile(r"planned-([0-9a-f]+)-([0-9]{6,})(?:-rank-[0-9]+|\.json)")
_REPORT = TypeAdapter(PlanningReport)


def plan_together(
    root: Path, request: list[object], rank: Rank, plan: Callable[[], PlanningReport], waiting: Callable[[], None]
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
    root: Path, found: Callable[[], T | None], plan: Callable[[], T], waiting: Callable[[], None]
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

    root: Path
    source: str
    number: int

    @classmethod
    def join(cls, root: Path, source: str, rank: Rank) -> "_Listing":
        """Take part in the newest listing, or in the next one if this rank has had its part in it."""
        number = max(_listings(root, source).values(), default=0)
        while not create_once(root, _path(root, source, number, f"-rank-{rank.rank}"), b""):
            number += 1
        crash_point("plan:joined")
        return cls(root, source, number)

    def result(self) -> PlanningReport | None:
        """Read what was found; None as long as nobody is through. A damaged file is as good as none."""
        path = _path(self.root, self.source, self.number, ".json")
        try:
            return _REPORT.validate_json(path.read_bytes()) if path.is_file() else None
        except ValueError:
            return None

    def finish(self, report: PlanningReport) -> None:
        """Tell the other ranks what was found, and remove what is left of earlier listings."""
        create_once(self.root, _path(self.root, self.source, self.number, ".json"), _REPORT.dump_json(report))
        crash_point("plan:told")
        earlier = [name for name, number in _listings(self.root, self.source).items() if number < self.number]
        remove_files(self.root / TEMPORARY, earlier)


def _path(root: Path, source: str, number: int, ending: str) -> Path:
    return root / TEMPORARY / f"planned-{source}-{number:06d}{ending}"


def _listings(root: Path, source: str) -> dict[str, int]:
    """Return the numbers of listings by the names of their files."""
    matches = (_NAME.fullmatch(path.name) for path in (root / TEMPORARY).glob(f"planned-{source}-*"))
    return {match[0]: int(match[2]) for match in matches if match}
