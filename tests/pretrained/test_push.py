"""A folder is uploaded through huggingface_hub, here to a server of this machine that speaks the Hub's few requests."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from solfa.errors import ConfigError
from solfa.pretrained.push import push_folder, require_token


class Hub(ThreadingHTTPServer):
    """Keeps the files of one commit, and who sent them; it may refuse commits."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.files: dict[str, bytes] = {}
        self.tokens: set[str | None] = set()
        self.created: dict[str, Any] = {}
        self.refuses = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Requests(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.answer({"sha": "0" * 40, "id": "me/piano", "siblings": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path.endswith("/api/repos/create"):
            self.server.created = json.loads(body)
            self.server.tokens.add(self.headers.get("authorization"))
            self.answer({"url": f"{self.server.url}/me/piano", "id": "me/piano", "name": "me/piano"})
        elif "/preupload/" in self.path:
            files = [file["path"] for file in json.loads(body)["files"]]
            told = {"uploadMode": "regular", "shouldIgnore": False}
            self.answer({"files": [{"path": path, **told} for path in files]})
        elif "/commit/" in self.path and self.server.refuses:
            self.answer({"error": "no space left for me"}, 403)
        elif "/commit/" in self.path:
            lines = [json.loads(line) for line in body.splitlines()]
            sent = [line["value"] for line in lines if line["key"] == "file"]
            self.server.files |= {file["path"]: base64.b64decode(file["content"]) for file in sent}
            self.answer({"success": True, "commitOid": "0" * 40, "commitUrl": f"{self.server.url}/me/piano/commit/0"})
        else:
            self.answer({})

    def answer(self, value: Any, code: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with Hub() as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my piano/codec").mkdir(parents=True)
    for name in ("README.md", "model.safetensors", "codec/config.json"):
        (tmp_path / "my piano" / name).write_bytes(name.encode())
    return tmp_path / "my piano"


def test_every_file_arrives_in_a_private_repository(hub: Hub, folder: Path) -> None:
    assert push_folder(folder, "me/piano") == f"{hub.url}/me/piano"
    assert hub.files == {name: name.encode() for name in ("README.md", "model.safetensors", "codec/config.json")}
    assert hub.tokens == {"Bearer hf_mine"}
    assert hub.created["name"] == "piano" and "private" in {*hub.created, *hub.created.values()}


def test_a_failed_upload_says_how_to_push_the_folder_later(hub: Hub, folder: Path) -> None:
    hub.refuses = True
    with pytest.raises(ConfigError, match=r"^`push`: .*no space left.*`hf upload me/piano '.*/my piano' \. --private`"):
        push_folder(folder, "me/piano")
    assert hub.files == {}


def test_a_name_that_cannot_be_one_is_refused(hub: Hub, folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"`push`: .*user/model.*'me/my/piano'"):
        push_folder(folder, "me/my/piano")


def test_without_a_token_nothing_is_asked_of_the_hub(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "nobody"))
    with pytest.raises(ConfigError, match=r"`push`: me/piano .*token"):
        require_token("me/piano")
    assert hub.tokens == set()
