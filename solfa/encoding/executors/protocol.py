"""What every executor can do: run encoder processes until they are done, and tell what they report.

An executor only starts and watches processes. Which shards there are, who takes which, and when one is finished is
settled by leases and commits in the dataset, so that it does not matter how often an encoder is started or lost.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from solfa.encoding.progress import Progress
from solfa.encoding.worker_main import EncoderJob
from solfa.files.stores.place import Place


def progress_of(report: Mapping[str, Any]) -> Progress:
    """Read what a `progress` report says, or a `claimed` one: that a shard begins, and nothing of it is done."""
    return Progress(shard=report["shard"]) if report["event"] == "claimed" else Progress(**report["progress"])


class Oversight(Protocol):
    """Who an executor reports to; an error that is raised here ends all encoders in order."""

    def progress(self, encoder: int, progress: Progress) -> None:
        """Take in the report of an encoder; one that was started again has another number."""
        ...

    def waiting(self) -> None:
        """Called a few times a second, also while there is nothing to report."""
        ...

    def is_over(self) -> bool:
        """Say whether every shard is committed; what encoders still do then is not needed."""
        ...


class Executor(Protocol):
    """Runs encoder processes, on this machine or on others."""

    def expect_ready(self, root: Place, source_root: Place) -> None:
        """Refuse, by name, machines that cannot work on the dataset; called once, before anything is planned."""
        ...

    def run(self, jobs: Sequence[EncoderJob], oversight: Oversight) -> None:
        """Run one encoder process per job to its end; any error, here or there, ends them all and is raised."""
        ...
