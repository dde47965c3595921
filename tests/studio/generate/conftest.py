"""A studio with three trained models, and somebody who asks them for clips."""

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

from solfa.studio.access import Access
from solfa.studio.app import make_app
from solfa.studio.context import Studio
from solfa.studio.datasets.shelf import Shelf
from tests.cli.conftest import solfa_main  # noqa: F401
from tests.studio.conftest import PORT
from tests.studio.job_threads import wait_for_jobs
from tests.studio.trained_models import train_models

HERE = {"origin": f"http://127.0.0.1:{PORT}"}


@pytest.fixture(scope="session")
def trained_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of experiments; not to be changed."""
    torch.set_num_threads(1)
    return train_models(tmp_path_factory.mktemp("models"))


class Asker:
    """Somebody at the room of models."""

    def __init__(self, dora_dir: Path) -> None:
        self.studio = Studio(Shelf(), dora_dir, Access(PORT))
        self.client = TestClient(make_app(self.studio), f"http://127.0.0.1:{PORT}", headers={"accept": "text/html"})
        self.folder = dora_dir / "studio/generated"

    def post(self, files: Any = None, **typed: Any) -> Any:
        return self.client.post(
            "/generate",
            data=typed,
            files=files or {"recording": ("", b"", "application/octet-stream")},
            headers=HERE,
            follow_redirects=False,
        )

    def ask(self, files: Any = None, **typed: Any) -> Path:
        """Ask, wait until it is done, and return the folder of what came."""
        answer = self.post(files, **typed)
        assert answer.status_code == 303, re.search(r'role="alert">(.*?)<', answer.text)
        key = answer.headers["location"].rpartition("#")[2]
        self.wait()
        job = self.studio.jobs.find(key)
        assert job is not None and job.state == "done", job and job.note
        return self.folder / key

    def wait(self) -> None:
        """Wait until nothing is left to do."""
        wait_for_jobs()

    def sentence(self, files: Any = None, **typed: Any) -> str:
        """Ask for something that is refused, and return why."""
        answer = self.post(files, **typed)
        assert answer.status_code == 400
        (found,) = re.findall(r'role="alert">(.*?)</p>', answer.text)
        return html.unescape(found)


@pytest.fixture
def asker(trained_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asker]:
    dora_dir = tmp_path / "dora"
    dora_dir.mkdir()
    (dora_dir / "xps").symlink_to(trained_models / "xps")
    monkeypatch.setenv("SOLFA_DORA_DIR", str(dora_dir))
    somebody = Asker(dora_dir)
    yield somebody
    somebody.studio.leaving.begin()


Told = Callable[..., Path]
