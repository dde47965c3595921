"""A real Ray cluster of two nodes on this machine, ended by process id: `ray stop` would end everybody's."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests.object_server import free_ports
from tests.scale.clusters.process_trees import command_of, descendants, kill, wait_until

RAY = [sys.executable, "-c", "import sys; sys.argv[0] = 'ray'; from ray.scripts.scripts import main; main()"]
MEMORY = "--object-store-memory=100000000"

Node = subprocess.Popen[bytes]


class RayCluster:
    """A head and a second node with one CPU each, and the server that `ray job` talks to."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, environment
        port, dashboard = free_ports(2)
        self.address, self.dashboard = f"127.0.0.1:{port}", f"http://127.0.0.1:{dashboard}"
        flags = ["--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", f"--temp-dir={folder}"]
        self._nodes: list[Node] = []
        self.head = self._start(["--head", f"--port={port}", *flags])
        self.second = self.add_node()

    def add_node(self, *, prefix: Sequence[str] = (), **environment: str) -> Node:
        """Start another node, by way of another command or with other variables if need be."""
        return self._start([f"--address={self.address}"], prefix, environment)

    def _start(self, flags: list[str], prefix: Sequence[str] = (), more: Mapping[str, str] | None = None) -> Node:
        # Not nice: on a busy machine, workers of Ray's own niceness would get nothing done.
        own = {"RAY_worker_niceness": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
        environment = {**os.environ, **self._environment, **own, **(more or {})}
        command = [*prefix, *RAY, "start", *flags, "--num-cpus=1", MEMORY, "--disable-usage-stats", "--block"]
        with (self._folder / f"node-{len(self._nodes)}.log").open("wb") as log:
            node = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._nodes.append(node)
        wait_until(lambda: b"--block" in Path(log.name).read_bytes() or node.poll() is not None)
        assert node.poll() is None, Path(log.name).read_text()
        return node

    def kill(self, node: Node, *, only_raylet: bool = False) -> None:
        """Kill a node as a power cut does, or just its raylet."""
        family = [node.pid, *descendants(node.pid)]
        doomed = [pid for pid in family if "/raylet/raylet" in command_of(pid)] if only_raylet else family
        assert doomed or node.poll() is not None
        kill(*doomed)
        if not only_raylet:
            node.wait()

    def __enter__(self) -> "RayCluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in reversed(self._nodes):
            if node.poll() is None:
                self.kill(node)
