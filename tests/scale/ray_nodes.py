"""A real Ray cluster of two nodes on this machine, ended by process id: `ray stop` would end everybody's."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from tests.scale.process_trees import command_of, descendants, wait_until

RAY = [sys.executable, "-c", "import sys; sys.argv[0] = 'ray'; from ray.scripts.scripts import main; main()"]
MEMORY = "--object-store-memory=100000000"


def free_port() -> int:
    with socket.socket() as open_socket:
        open_socket.bind(("127.0.0.1", 0))
        return int(open_socket.getsockname()[1])


class RayCluster:
    """A head and a second node with one CPU each."""

    def __init__(self, folder: Path, *, dashboard: bool = False) -> None:
        self._folder = folder
        self.address = f"127.0.0.1:{free_port()}"
        self.dashboard = f"http://127.0.0.1:{free_port()}" if dashboard else None
        self.head = self._start("--head", f"--port={self.address.rpartition(':')[2]}", *self._dashboard_flags())
        self.second = self.add_node()

    def _dashboard_flags(self) -> list[str]:
        if self.dashboard is None:
            return ["--include-dashboard=false"]
        return ["--dashboard-host=127.0.0.1", f"--dashboard-port={self.dashboard.rpartition(':')[2]}"]

    def add_node(self) -> "subprocess.Popen[bytes]":
        return self._start(f"--address={self.address}")

    def _start(self, *flags: str) -> "subprocess.Popen[bytes]":
        # Not nice: on a busy machine, workers of Ray's own niceness would get nothing done.
        environment = {**os.environ, "RAY_worker_niceness": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
        temporary = [f"--temp-dir={self._folder}"] if "--head" in flags else []
        command = [*RAY, "start", *flags, *temporary, "--num-cpus=1", MEMORY, "--disable-usage-stats", "--block"]
        with (self._folder / f"node-{len(list(self._folder.glob('node-*')))}.log").open("wb") as log:
            node = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(lambda: b"--block" in Path(log.name).read_bytes() or node.poll() is not None, 120)
        assert node.poll() is None, Path(log.name).read_text()
        return node

    def kill(self, node: "subprocess.Popen[bytes]", *, only_raylet: bool = False) -> None:
        """Kill a node as a power cut does, or just its raylet."""
        family = [node.pid, *descendants(node.pid)]
        doomed = [pid for pid in family if "/raylet/raylet" in command_of(pid)] if only_raylet else family
        for pid in doomed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not only_raylet:
            node.wait()

    def __enter__(self) -> "RayCluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in (self.second, self.head):
            self.kill(node)
        time.sleep(0.5)
