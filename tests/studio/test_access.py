"""Who is let in: pages of the studio itself, on this machine, and with a password others."""

from collections.abc import Callable

import pytest
from starlette.testclient import TestClient

from solfa.studio.access import Access

HERE = "http://127.0.0.1:8100"


@pytest.mark.parametrize("host", ["127.0.0.1:8100", "localhost:8100", "[::1]:8100"])
def test_names_of_this_machine_are_let_in(make_client: Callable[..., TestClient], host: str) -> None:
    assert make_client().get("/datasets", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "studio.example:8100"},  # a name that somebody made point to 127.0.0.1
        {"host": "127.0.0.1:8101"},
        {"host": ""},
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
    ],
)
def test_foreign_hosts_and_pages_are_refused(make_client: Callable[..., TestClient], headers: dict[str, str]) -> None:
    for path in ("/datasets", "/static/studio.js", "/login"):
        answer = make_client().get(path, headers=headers)
        assert answer.status_code == 403
        assert "refused" in answer.text


def test_a_link_on_another_page_may_lead_here(make_client: Callable[..., TestClient]) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert make_client().get("/datasets", headers=headers).status_code == 200


@pytest.mark.parametrize("origin", [None, "https://evil.example", "http://localhost:8100"])
def test_a_form_of_another_page_changes_nothing(make_client: Callable[..., TestClient], origin: str | None) -> None:
    headers = {"origin": origin} if origin else {}
    client = make_client(password="correct horse")
    answer = client.post("/login", data={"password": "correct horse"}, headers=headers, follow_redirects=False)
    assert answer.status_code == 403
    assert not client.cookies


def test_with_a_password_nothing_is_shown_without_it(
    make_client: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solfa.studio.app.WRONG_PASSWORD_SECONDS", 0.0)
    client = make_client(password="correct horse")
    headers = {"host": "studio.example", "origin": "http://studio.example"}
    assert client.get("/datasets", headers=headers).url.path == "/login"
    assert client.get("/datasets", headers={**headers, "accept": "*/*"}).status_code == 401
    wrong = client.post("/login", data={"password": "battery staple"}, headers=headers)
    assert wrong.status_code == 403
    assert not client.cookies
    entered = client.post("/login", data={"password": "correct horse"}, headers=headers, follow_redirects=False)
    assert entered.status_code == 303
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    session = {**headers, "cookie": entered.headers["set-cookie"].partition(";")[0]}
    assert client.get("/datasets", headers=session, follow_redirects=False).status_code == 200
    stranger = {**headers, "cookie": "solfa-studio-8100=guess"}
    assert client.get("/datasets", headers=stranger, follow_redirects=False).status_code == 303


def test_the_usual_port_is_not_part_of_a_name() -> None:
    assert Access(80).refusal("GET", {"host": "127.0.0.1"}) is None
    assert Access(8100).refusal("GET", {"host": "127.0.0.1"}) is not None


def test_sessions_of_two_servers_differ() -> None:
    assert Access(8100, "a").session != Access(8100, "a").session


def test_every_answer_forbids_scripts_of_others(make_client: Callable[..., TestClient]) -> None:
    client = make_client()
    for path in ("/datasets", "/static/studio.js", "/nowhere"):
        headers = client.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"].replace("style-src-attr 'unsafe-inline'", "")
        assert headers["x-content-type-options"] == "nosniff"
