"""A real Ceph object gateway from Debian's packages, which are installed where nobody else sees them (`ceph.sh`)."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

from tests import object_server as servers

START_SECONDS = 900.0


class UnavailableError(Exception):
    """Ceph cannot be had here, and why."""


class CephGateway:
    """The gateway, as a context: at its end every process is gone, and so is what was installed."""

    def __init__(self, folder: Path) -> None:
        if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("apt-get") is None:
            raise UnavailableError("it takes Debian, root and unshare")
        self._folder = folder
        self.port, monitor = servers.free_ports(2)
        self.environment = servers.environment_of(self.port)
        script = Path(__file__).with_name("ceph.sh")
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", script, folder, self.port, monitor]
        words = [*map(str, command), servers.KEY, servers.SECRET]
        self._process = subprocess.Popen(words, start_new_session=True, stdin=subprocess.DEVNULL)

    def __enter__(self) -> "CephGateway":
        deadline = time.monotonic() + START_SECONDS
        while not (self._folder / "ready").exists():
            if (self._folder / "failed").exists():
                raise UnavailableError((self._folder / "failed").read_text().strip())
            assert self._process.poll() is None and time.monotonic() < deadline, self._log()
            time.sleep(0.5)
        servers.ask(self.port, "PUT", f"/{servers.BUCKET}")
        return self

    def _log(self) -> str:
        path = self._folder / "log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else "it wrote no log"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
