"""`solfa encode` as somebody types it, in the background, so that something can happen to it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from solfa.store.layout import committed_shards
from tests.scale.clusters.process_trees import descendants, wait_until

SOLFA = [sys.executable, "-c", "from solfa.cli.main import main; main()"]
CODEC = "solfa_24khz"
PATIENCE = 240.0
"""Seconds; only against hanging."""


class EncodeRun:
    """A command that is running; its words are in files, where they do not fill a pipe."""

    def __init__(self, source: Path, dest: Path | str, *flags: str, environment: Mapping[str, str] | None = None):
        self.dest = Path(dest)
        self._words = {
            name: source.parent / f"{self.dest.name}.{os.urandom(4).hex()}.{name}" for name in ("out", "err")
        }
        with self._words["out"].open("w") as out, self._words["err"].open("w") as errors:
            self.process = subprocess.Popen(
                [*SOLFA, "encode", str(source), str(dest), "--codec", CODEC, *flags],
                stdout=out,
                stderr=errors,
                env={**os.environ, "COLUMNS": "200", **(environment or {})},
            )

    @property
    def out(self) -> str:
        return self._words["out"].read_text()

    @property
    def errors(self) -> str:
        return self._words["err"].read_text()

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def finish(self) -> str:
        """Wait for the end, which is expected to be good; return what was printed."""
        assert self.wait() == 0, self.errors
        return self.out

    def wait_for_work(self, commits: int = 1) -> dict[int, int]:
        """Wait until some shards are committed and others are being worked on; return the processes that do."""
        wait_until(
            lambda: (
                self.process.poll() is not None
                or (len(committed_shards(self.dest)) >= commits and bool(self.encoders()))
            ),
            PATIENCE,
        )
        assert self.process.poll() is None, self.errors
        return self.encoders()

    def stop_one_at_work(self, below: int | None = None) -> int:
        """Stop a process that is working on a shard, so that it cannot finish it before it is killed.

        With `below`, one that this process started, or those that it started.
        """
        while True:
            for shard, pid in self.wait_for_work(0).items():
                if below is not None and pid not in descendants(below):
                    continue
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                    if self.encoders().get(shard) == pid:
                        return pid
                    os.kill(pid, signal.SIGCONT)

    def encoders(self) -> dict[int, int]:
        """Read from the leases which process works on which shard."""
        found = {}
        for lease in sorted((self.dest / ".tmp").glob("lease-0*")):
            try:
                found[int(lease.name.removeprefix("lease-"))] = int(lease.read_text().split()[1])
            except FileNotFoundError:
                continue
        return found

    def writers(self) -> set[int]:
        """List the processes that have begun to write a shard, whose names have their numbers in them."""
        return {int(path.name.split(".")[1]) for path in (self.dest / ".tmp").glob("data-*.*.*")}

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
