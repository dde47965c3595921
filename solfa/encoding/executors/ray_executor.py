"""Encoder processes on a Ray cluster: one actor for each, which are started again elsewhere when they are lost.

Ray only places processes. An actor is never restarted by Ray, and no call is retried: whether a shard still has to be
encoded is a question to the dataset, which this process asks.
"""

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from solfa.encoding.executors.encoder_process import GRACE_SECONDS, check_exit, reported_error
from solfa.encoding.executors.lost_encoders import LostEncoders
from solfa.encoding.executors.protocol import Oversight, progress_of
from solfa.encoding.executors.ray_cluster import (
    Ray,
    alive_nodes,
    choose_encoders,
    choose_share,
    connect,
    expect_fit_nodes,
    import_ray,
    unfit_nodes,
)
from solfa.encoding.executors.ray_encoder import RayEncoder, versions
from solfa.encoding.worker_main import STOPPED, EncoderJob
from solfa.errors import SolfaError
from solfa.files.stores.place import Place, read_place
from solfa.files.whole_files import temporary_path
from solfa.store.layout import is_committed
from solfa.store.lease import drop_lease

logger = logging.getLogger(__name__)

WAIT_SECONDS = 0.2
ROOM_SECONDS = 30.0
"""After this long without any encoder, somebody is told what is being waited for."""


@dataclass
class _Live:
    """An actor, and what its encoder has taken."""

    number: int
    job: EncoderJob
    actor: Any
    reports: Any
    host: str = ""
    claimed: dict[int, str] = field(default_factory=dict)
    """The shards, in order, and who signed their leases."""


class RayExecutor:
    """Runs encoders on the nodes of a cluster that is already there."""

    def __init__(
        self,
        device: str,
        num_encoders: int | None,
        num_workers: int | None,
        *,
        address: str | None = None,
        cpus: float | None = None,
        gpus: float | None = None,
    ) -> None:
        self._ray: Ray = import_ray()
        self._is_ours = connect(self._ray, address)
        try:
            nodes = [node["Resources"] for node in alive_nodes(self._ray)]
            self._share = choose_share(device, cpus, gpus, nodes)
            self.encoders = choose_encoders(self._share, num_encoders, num_workers, nodes)
        except BaseException:
            self._disconnect()
            raise
        self._paths: list[Path] = []
        self._nonce: Path | None = None
        self._live: list[_Live] = []
        self._started = 0
        self._lost = LostEncoders()

    def __enter__(self) -> "RayExecutor":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._nonce is not None:
            self._nonce.unlink(missing_ok=True)
        self._disconnect()

    def _disconnect(self) -> None:
        if self._is_ours:
            self._ray.shutdown()

    def expect_ready(self, root: Place, source_root: Place) -> None:
        """Ask every node for its versions, and whether it sees a new file in DEST, and SOURCE as it is here.

        An object store is the same from everywhere; a node without its credentials says so when it first reads.
        """
        if isinstance(root, Path):
            self._nonce = temporary_path(root.absolute(), "seen-from-every-node")
            self._nonce.write_bytes(b"")
            self._paths.append(self._nonce)
        if isinstance(source_root, Path):
            whole = source_root.absolute()
            self._paths.append((next(whole.iterdir(), None) if whole.is_dir() else None) or whole)
        expect_fit_nodes(self._ray, self._share, self._paths)

    def run(self, jobs: Sequence[EncoderJob], oversight: Oversight) -> None:
        """Run one actor per job until nothing is missing; errors that a new start would not change end them all."""
        began = time.monotonic()
        try:
            for job in jobs:
                self._start(job)
            while self._live and not oversight.is_over():
                oversight.waiting()
                reports = [live.reports for live in self._live]
                ready, _ = self._ray.wait(reports, num_returns=1, timeout=WAIT_SECONDS, fetch_local=False)
                for live in [live for live in self._live if live.reports in ready]:
                    self._listen(live, oversight)
                if began and time.monotonic() - began > ROOM_SECONDS:
                    if not any(live.host for live in self._live):
                        logger.warning("waiting for Ray to find room for %d encoders", len(self._live))
                    began = 0.0
        finally:
            self._end()

    def _start(self, job: EncoderJob) -> None:
        # Two at once: the encoder's reports, and a call that stops it. Neither restarted nor retried by Ray.
        actor_class = self._ray.remote(max_restarts=0, max_task_retries=0, max_concurrency=2)(RayEncoder)
        actor = actor_class.options(num_cpus=self._share.cpus, num_gpus=self._share.gpus).remote()
        run = actor.run.options(num_returns="streaming")
        reports = run.remote(job.model_dump_json(), versions(), list(map(str, self._paths)))
        self._live.append(_Live(self._started, job, actor, reports))
        self._started += 1

    def _listen(self, live: _Live, oversight: Oversight) -> None:
        """Take in the next report of an encoder, or its end."""
        try:
            report = json.loads(self._ray.get(next(live.reports)))
        except StopIteration:
            self._forget(live)
            return
        except self._ray.exceptions.RayTaskError as error:  # the actor is well, but its code failed
            raise SolfaError(
                f"the actor of an encoder on {live.host or 'a Ray node'} failed: {error.cause!r}"
            ) from error
        except self._ray.exceptions.RayError as error:  # a dead node first seems to be an unavailable actor
            self._replace(live, type(error).__name__)
            return
        match report["event"]:
            case "greeting":
                live.host = report["host"]
                if report["faults"]:  # a node that joined after all others were asked
                    raise unfit_nodes([f"{live.host} {', '.join(report['faults'])}"], len(alive_nodes(self._ray)))
            case "error":
                raise reported_error(report)
            case "exit" if report["code"] < 0 or report["code"] == STOPPED:
                self._replace(live, f"exit code {report['code']}")
            case "exit":
                if report["code"]:
                    logger.warning("the encoder on %s said: %s", live.host, report["words"].strip())
                check_exit(report["code"])
                self._forget(live)
            case "claimed":
                live.claimed[report["shard"]] = report["owner"]
                self._lost.took_shard()
                oversight.progress(live.number, progress_of(report))
            case "progress":
                oversight.progress(live.number, progress_of(report))

    def _replace(self, live: _Live, how: str) -> None:
        """Start another encoder for one that was lost, and free what it had taken, which nobody else can know."""
        self._forget(live)
        root = read_place(live.job.dest)
        unfinished = [shard for shard in live.claimed if not is_committed(root, shard)]
        for shard in unfinished:
            drop_lease(root, shard, live.claimed[shard])
        where = live.host or "a Ray node"
        logger.warning("an encoder on %s was lost (%s); another one is started", where, how)
        self._lost.add(live.job.dest, next(iter(unfinished), None), f"on {where} ({how})")
        self._start(live.job)

    def _forget(self, live: _Live) -> None:
        # An actor keeps its place on the node until it is killed, even if it has nothing to do.
        self._live.remove(live)
        self._ray.kill(live.actor)

    def _end(self) -> None:
        """Let encoders finish the batch that they are in, as far as they are within reach."""
        live, self._live = self._live, []
        stops = [one.actor.stop.remote() for one in live if one.host]
        if stops:
            self._ray.wait(stops, num_returns=len(stops), timeout=GRACE_SECONDS + 2, fetch_local=False)
        for one in live:
            self._ray.kill(one.actor)
