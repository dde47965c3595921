"""The studio as a whole: one arrives, and every room opens."""

import http.client
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.conftest import Server, Visitor

pytestmark = pytest.mark.browser


def test_every_room_opens(studios: Callable[..., Server], visit: Callable[..., Visitor], tmp_path: Path) -> None:
    server = studios("--runs", tmp_path)
    page = visit(server.address).page
    page.goto("/")
    links = page.locator("nav a")
    for index in range(links.count()):
        links.nth(index).click()
        assert links.nth(index).get_attribute("aria-current") == "page"
        assert page.locator("h1").inner_text() == links.nth(index).inner_text()
    assert re.search(r"Solfa", page.title())


def test_only_this_machine_is_answered_and_only_on_its_own_name(studios: Callable[..., Server], tmp_path: Path) -> None:
    server = studios("--runs", tmp_path)
    listening = Path("/proc/net/tcp").read_text().splitlines() + Path("/proc/net/tcp6").read_text().splitlines()
    places = {line.split()[1] for line in listening if line.split()[1].endswith(f":{server.port:04X}")}
    assert {place.partition(":")[0] for place in places} == {"0100007F"}
    for headers in ({"Host": f"evil.example:{server.port}"}, {"Origin": "https://evil.example"}):
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", "/datasets", headers=headers)
        assert connection.getresponse().status == 403
        connection.close()


def test_a_password_is_asked_for(studios: Callable[..., Server], visit: Callable[..., Visitor], tmp_path: Path) -> None:
    server = studios("--runs", tmp_path, "--password", SOLFA_STUDIO_PASSWORD="correct horse")
    page = visit(server.address).page
    page.goto("/datasets")
    assert page.locator("h1").inner_text() == "Password"
    page.fill("input[name=password]", "correct horse")
    page.keyboard.press("Enter")
    page.wait_for_url("**/datasets")
    assert page.locator("h1").inner_text() == "Datasets"
