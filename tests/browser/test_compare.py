"""Compare in a browser: a blind test by keyboard alone, which ends in answers on the disk and an interval."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.browser.conftest import Server, Visitor, screenshot, wait_until

pytestmark = pytest.mark.browser
RATE = 16_000
PLAYING = """place => {
  const player = document.querySelector(`[data-place="${place}"] audio`);
  return player.currentTime > 0.1 && !player.paused;
}"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three folders of the same four clips: one clean, two with noise."""
    folder = tmp_path_factory.mktemp("sides")
    rng = np.random.default_rng(0)
    time = np.arange(3 * RATE) / RATE
    for index in range(4):
        tone = 0.3 * np.sin(2 * np.pi * 220 * (index + 1) * time)
        for side, noise in (("clean", 0.0), ("secret_one", 0.01), ("secret_two", 0.1)):
            (folder / side).mkdir(exist_ok=True)
            soundfile.write(folder / side / f"clip{index}.wav", tone + noise * rng.standard_normal(len(time)), RATE)
    return folder


@pytest.fixture(scope="module")
def server(studios: Callable[..., Server], folders: Path) -> Server:
    return studios("--runs", folders)


def answers(folders: Path) -> list[dict[str, object]]:
    path = folders / "studio/compared/answers.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def test_two_are_compared_blind_with_the_keyboard(server: Server, visit: Callable[..., Visitor], folders: Path) -> None:
    visitor = visit(server.address, viewport={"width": 1100, "height": 720})
    page = visitor.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("/compare")
    page.get_by_label("One side").fill(str(folders / "secret_one"))
    page.get_by_label("The other side").fill(str(folders / "secret_two"))
    page.get_by_label("Listener").fill("Ada")
    page.get_by_label("Listener").press("Enter")
    for number in range(4):
        page.get_by_text(f"Trial {number + 1} of 4").wait_for()
        page.locator(".keys").wait_for()
        page.keyboard.press("1")
        wait_until(page, PLAYING, "1")
        page.keyboard.press("2")
        wait_until(page, PLAYING, "2")
        assert page.evaluate("() => document.querySelector('[data-place=\"1\"] audio').paused")
        if number == 0:
            page.keyboard.press(" ")
            wait_until(page, "() => [...document.querySelectorAll('audio')].every((player) => player.paused)")
            assert "secret" not in page.content()
            screenshot(page, "studio-trial")
        page.keyboard.press("ArrowLeft" if number % 2 else "ArrowRight" if number else "ArrowDown")
    page.get_by_text("95 % interval").wait_for()
    screenshot(page, "studio-compared")
    assert not [address for address in asked if "secret" in address]
    told = answers(folders)
    assert [answer["trial"] for answer in told] == [0, 1, 2, 3]
    assert told[0]["preferred"] is None
    for answer, place in zip(told[1:], (0, 1, 0), strict=True):
        assert answer["preferred"] == answer["order"][place]  # type: ignore[index]


def test_ratings_beside_a_reference_with_the_keyboard(
    server: Server, visit: Callable[..., Visitor], folders: Path
) -> None:
    page = visit(server.address, viewport={"width": 390, "height": 844}, color_scheme="dark").page
    page.goto("/compare")
    for label, side in (("One side", "secret_one"), ("The other side", "secret_two"), ("Reference", "clean")):
        page.get_by_role("combobox", name=label).fill(str(folders / side))
    page.get_by_label("Question").select_option("rating")
    page.get_by_label("Trials").fill("1")
    page.get_by_role("button", name="Begin").click()
    page.get_by_text("Trial 1 of 1").wait_for()
    page.locator(".keys").wait_for()
    assert page.locator("[data-place]").count() == 5
    page.keyboard.press("r")
    wait_until(page, "() => document.querySelector('[data-place=r] audio').currentTime > 0.1")
    for place in range(1, 5):
        page.keyboard.press(str(place))
        for _ in range(place):
            page.keyboard.press("ArrowRight")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    before = len(answers(folders))
    page.keyboard.press("Enter")
    page.get_by_text("Mean ratings").wait_for()
    (told,) = answers(folders)[before:]
    assert [told["ratings"][side] for side in told["order"]] == [51, 52, 53, 54]  # type: ignore[index,attr-defined]
