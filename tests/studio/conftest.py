"""A studio without a server: its application is called directly, with a small real dataset."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from solfa.studio.access import Access
from solfa.studio.app import make_app
from solfa.studio.context import Studio
from solfa.studio.datasets.shelf import Shelf
from tests.disks import no_waiting_for_disks  # noqa: F401
from tests.studio.made_dataset import make_dataset, write_audio

PORT = 8100


@pytest.fixture(scope="session")
def small_audio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings of `small_dataset`; not to be changed."""
    return write_audio(tmp_path_factory.mktemp("studio") / "audio")


@pytest.fixture(scope="session")
def small_dataset(small_audio: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five tones as mu-law codes, and one recording that failed; not to be changed."""
    return make_dataset(tmp_path_factory.mktemp("studio") / "small.solfa", small_audio)


@pytest.fixture
def make_client(tmp_path: Path) -> Callable[..., TestClient]:
    """Make a browser of sorts at 127.0.0.1."""

    def make(
        *datasets: Path, sources: list[Path] | None = None, password: str | None = None, **more: Any
    ) -> TestClient:
        shelf = Shelf(sources or [])
        for dataset in datasets:
            shelf.add(dataset)
        app = make_app(Studio(shelf, tmp_path / "runs", Access(PORT, password), **more))
        return TestClient(app, f"http://127.0.0.1:{PORT}", headers={"accept": "text/html"})

    return make
