"""What a run reports at its end."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from solfa.environment.ranks import Rank


class FailedItem(NamedTuple):
    """One item that could not be encoded, a line of failures.jsonl."""

    id: str
    path: str
    relpath: str
    start_time: float
    """Seconds into the recording."""
    error: str


@dataclass(frozen=True)
class PreEncodeReport:
    """The state of this rank's items after a run, and what the run did."""

    path: Path
    codec: str
    rank: Rank
    items: int
    """Items of this rank that are stored."""
    new_items: int
    """Items that this run stored."""
    failures: list[FailedItem]
    new_seconds: float
    """Audio this run encoded, without padding."""
    encode_seconds: float
    """Wall time from the first item to the last."""
    notes: list[str] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Audio-seconds per second of this run."""
        return self.new_seconds / self.encode_seconds if self.encode_seconds else 0.0
