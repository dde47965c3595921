"""The Ray cluster of a run: how it is found, how many encoders it has room for, and which nodes cannot take part."""

import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from solfa.encoding.executors.ray_encoder import look_around, versions
from solfa.encoding.placement import GPU_WORKERS, Encoders, expect_counts
from solfa.environment.ranks import read_turn
from solfa.errors import ConfigError

ANSWER_SECONDS = 60.0
CONNECT_SECONDS = 10.0
SHOWN_NODES = 5

Ray = Any
"""The module, which is only imported by those who use it."""


class Share(NamedTuple):
    """What one encoder takes of a node."""

    cpus: float
    gpus: float

    def room(self, resources: Mapping[str, float]) -> int:
        """Count the encoders that a node has room for."""
        wanted = (("CPU", self.cpus), ("GPU", self.gpus))
        return min(int(resources.get(name, 0.0) / amount + 1e-9) for name, amount in wanted if amount)


def import_ray() -> Ray:
    """Import Ray, which is an extra."""
    # Or Ray would give encoders that ask for no GPU a machine without any, and say so in the terminal at each start.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise ConfigError(
            "`executor=ray`: Ray is not installed; `pip install 'solfa[ray]'` installs it, here and on every node"
        ) from None
    return ray


def connect(ray: Ray, address: str | None) -> bool:
    """Connect to a cluster that is already running; say whether it was us who did, and so must disconnect."""
    if ray.is_initialized():
        present = ray.get_runtime_context().gcs_address
        if address is not None and address != present:
            raise ConfigError(
                f"`ray_address={address}`: this process is connected to {present} already; leave it out, or call "
                "`ray.shutdown()` first"
            )
        return False
    where = address or os.environ.get("RAY_ADDRESS") or "auto"
    _expect_address(where, "`ray_address`" if address else "RAY_ADDRESS")
    try:
        with _kept_handler():
            ray.init(address=where, log_to_driver=False, logging_level="ERROR", configure_logging=True)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"no Ray cluster at {where} ({str(error).splitlines()[0]}); start one with `ray start --head`, pass "
            "`ray_address`, or use `ray job submit`"
        ) from None
    return True


@contextmanager
def _kept_handler() -> Iterator[None]:
    """Keep what this process does on SIGTERM, which Ray replaces when it connects."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _expect_address(where: str, name: str) -> None:
    """Refuse what Ray would try for minutes, and the addresses of its other services."""
    if where == "auto":
        return
    host, _, port = where.rpartition(":")
    if "//" in where or not host or not port.isdigit():
        advice = (
            "from outside of a cluster use `ray job submit`, which sets the address itself" if "//" in where else ""
        )
        raise ConfigError(
            f"{name}: expected HOST:PORT of a Ray head node, or auto, found {where!r}; {advice}".rstrip("; ")
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise ConfigError(
            f"{name}: nobody answers at {where} ({error.strerror or error}); is the head node up?"
        ) from None


def choose_share(device: str, cpus: float | None, gpus: float | None, nodes: Sequence[Mapping[str, float]]) -> Share:
    """Fill in what one encoder takes: one GPU where there are any, and with it the cores that feed it."""
    kind = device.partition(":")[0]
    if device not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"`device={device}`: expected auto, cpu or cuda with `executor=ray`, which chooses the GPU")
    most = max((node.get("GPU", 0.0) for node in nodes), default=0.0)
    if gpus is None:
        gpus = 1.0 if kind == "cuda" or (kind == "auto" and most) else 0.0
    if not 0 <= gpus <= 1:
        raise ConfigError(f"`encoder_gpus`: expected 0 to 1, found {gpus:g}; an encoder uses one GPU or a part of one")
    if (kind == "cpu" and gpus) or (kind == "cuda" and not gpus):
        raise ConfigError(f"`encoder_gpus={gpus:g}`: does not go with `device={device}`; leave one of them out")
    if cpus is None:
        # Not more than a GPU's part of the cores, or some GPUs would be left without an encoder.
        parts = [node.get("CPU", 0.0) * gpus // node["GPU"] for node in nodes if node.get("GPU")] if gpus else []
        cpus = float(max(1, min([GPU_WORKERS, *map(int, parts)]))) if parts else 1.0
    if cpus <= 0 or (cpus > 1 and cpus != int(cpus)):
        raise ConfigError(f"`encoder_cpus`: expected a part of 1 or a whole number, found {cpus:g}")
    return Share(cpus, gpus)


def choose_encoders(
    share: Share, count: int | None, num_workers: int | None, nodes: Sequence[Mapping[str, float]]
) -> Encoders:
    """Fill in how many encoders there are: by default as many as there is room for."""
    expect_counts(count, num_workers)
    room = sum(share.room(node) for node in nodes)
    if count is None and not room:
        raise ConfigError(
            f"no node of the Ray cluster has room for an encoder with {share.cpus:g} CPUs and {share.gpus:g} GPUs "
            "(`encoder_cpus`, `encoder_gpus`); ask for less, or pass `num_encoders` to wait for nodes to come"
        )
    if num_workers is None:
        num_workers = max(1, min(GPU_WORKERS, int(share.cpus))) if share.gpus else 1
    # An encoder sees the GPU that Ray gave it, and no other.
    return Encoders("cuda:0" if share.gpus else "cpu", count or room, num_workers, turn=read_turn(os.environ))


def alive_nodes(ray: Ray) -> list[dict[str, Any]]:
    """List the nodes that Ray can use now."""
    return [node for node in ray.nodes() if node["Alive"]]


def expect_fit_nodes(ray: Ray, share: Share, paths: Sequence[Path]) -> None:
    """Ask every node that could get an encoder whether it can take part; name those that cannot, and why."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as OnNode

    look = ray.remote(num_cpus=0, max_retries=0)(look_around)
    nodes = [node for node in alive_nodes(ray) if share.room(node["Resources"])]
    answers = [
        look.options(scheduling_strategy=OnNode(node["NodeID"], soft=False)).remote(versions(), list(map(str, paths)))
        for node in nodes
    ]
    ray.wait(answers, num_returns=len(answers), timeout=ANSWER_SECONDS) if answers else None
    unfit = [
        f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}) {', '.join(faults)}"
        for node, answer in zip(nodes, answers, strict=True)
        if (faults := _faults(ray, answer))
    ]
    if unfit:
        raise unfit_nodes(unfit, len(nodes))


def unfit_nodes(unfit: Sequence[str], total: int) -> ConfigError:
    """Name the nodes that cannot take part."""
    shown = "; ".join(unfit[:SHOWN_NODES]) + (
        f"; and {len(unfit) - SHOWN_NODES} more" if len(unfit) > SHOWN_NODES else ""
    )
    return ConfigError(
        f"{len(unfit)} of {total} Ray nodes cannot take part, and nothing was encoded: {shown}; every node needs the "
        "same versions, and the source and the dataset at the same paths"
    )


def _faults(ray: Ray, answer: Any) -> list[str]:
    try:
        faults: list[str] = ray.get(answer, timeout=0.1)["faults"]
    except ray.exceptions.GetTimeoutError:
        return [f"does not answer within {ANSWER_SECONDS:.0f} s"]
    except ray.exceptions.RayError as error:
        missing = "No module named" in str(error)
        return ["has no Solfa, or an older one" if missing else f"fails: {str(error).strip().splitlines()[-1]}"]
    return faults
