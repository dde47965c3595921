"""The application: where a visitor arrives, what all pages load, and errors as sentences."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from starlette.testclient import TestClient

from solfa.studio.app import ROOMS
from solfa.studio.pages import STATIC


def test_every_room_is_in_the_navigation_and_says_where_one_is(make_client: Callable[..., TestClient]) -> None:
    client = make_client()
    start = client.get("/")
    paths = re.findall(r'<a href="(/[a-z]+)"', start.text.partition("</nav>")[0])
    assert len(paths) == len(ROOMS)
    for path in paths:
        page = client.get(path)
        assert page.status_code == 200
        assert re.search(rf'<a href="{path}" aria-current="page"', page.text)


def test_what_pages_load_is_there(make_client: Callable[..., TestClient]) -> None:
    client = make_client()
    page = client.get("/datasets").text
    for address in re.findall(r'(?:src|href)="(/(?:static/|look)[^"]+)"', page):
        assert client.get(address).status_code == 200
    for script in STATIC.glob("*.js"):
        for name in re.findall(r'from "\./([a-z_]+\.js)"', script.read_text(encoding="utf-8")):
            assert (STATIC / name).is_file(), f"{script.name} imports {name}"


def test_what_is_not_there_is_a_sentence(make_client: Callable[..., TestClient]) -> None:
    client = make_client()
    assert client.get("/nowhere").status_code == 404
    answer = client.get("/nowhere", headers={"accept": "*/*"})
    assert answer.headers["content-type"].startswith("text/plain")


def test_a_name_is_shown_as_text(make_client: Callable[..., TestClient], small_dataset: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "<script>alert(1)<\u202e"
    hostile.symlink_to(small_dataset)
    shown = make_client(hostile).get("/datasets").text
    assert "<script>alert" not in shown
    assert "&lt;script&gt;alert(1)&lt;\\u202e" in shown


def test_pages_are_served_without_torch() -> None:
    """Nobody waits for torch who only looks; listening imports it."""
    code = "import sys, solfa.studio.server, solfa.encoding.decoded_clips; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
