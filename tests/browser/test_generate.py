"""Generate in a browser: ask, watch, hear, download the command line's bytes, stop, and go on from a stretch."""

import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Server, Visitor, screenshot, serving, wait_until
from tests.studio.trained_models import CODES, LATENTS, WAVES, train_models

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def dora_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_models(tmp_path_factory.mktemp("dora"))


@pytest.fixture(scope="module")
def server(studios: Callable[..., Server], dora_dir: Path) -> Server:
    running = studios(SOLFA_DORA_DIR=str(dora_dir))
    urllib.request.urlopen(f"{running.address}/generate", timeout=300).close()  # all that it imports is imported
    return running


def ask(page: "Page") -> "Locator":
    """Press Generate, and find the take that the answer leads to among those of other tests."""
    with page.expect_navigation(url=re.compile(r"#[\w-]+$")):
        page.get_by_role("button", name="Generate").press("Enter")
    return page.locator(f"[id='{page.url.partition('#')[2]}']")


def play(page: "Page", player: "Locator") -> None:
    """Play a clip until its position has moved; a card that changes meanwhile brings another player."""
    for _ in range(600):
        if player.evaluate("player => { player.play(); return player.currentTime > 0.1; }"):
            return
        page.wait_for_timeout(50)
    pytest.fail("the position does not move")


def first_clip(page: "Page", **typed: str) -> "Locator":
    """Ask a model of latents for a clip, and wait for it."""
    page.goto(f"/generate?model={LATENTS}")
    for label, value in {"Seconds": "1", **typed}.items():
        page.get_by_label(label, exact=True).fill(value)
    clip = ask(page).locator(".clip").first
    clip.wait_for()
    return clip


def test_what_is_generated_plays_and_is_what_the_command_line_writes(
    server: Server, visit: Callable[..., Visitor], dora_dir: Path, tmp_path: Path
) -> None:
    page = visit(server.address, viewport={"width": 1100, "height": 860}).page
    page.goto("/generate")
    page.get_by_label("Model").fill(LATENTS)
    page.get_by_role("button", name="Choose").click()
    page.get_by_label("Text").wait_for()
    page.get_by_text("How it draws").click()
    page.get_by_label("Steps from noise").fill("3")
    page.get_by_label("Text").fill("a slow b, warm")
    page.get_by_label("Seconds", exact=True).fill("1.5")
    page.get_by_label("Clips", exact=True).fill("2")
    page.get_by_label("Seed", exact=True).fill("7")
    take = ask(page)
    take.locator(".clip").nth(1).wait_for()
    play(page, take.locator("audio").first)
    with page.expect_download() as download:
        take.get_by_role("link", name="Download").first.click()
    command = shlex.split(take.locator(".command").text_content() or "")
    variables = {**os.environ, "SOLFA_DORA_DIR": str(dora_dir)}
    subprocess.run([sys.executable, "-m", *command, "--out", str(tmp_path / "out")], check=True, env=variables)
    (written,) = (tmp_path / "out").glob("*-000.wav")
    assert Path(download.value.path()).read_bytes() == written.read_bytes()
    assert page.get_by_label("Text").input_value() == "a slow b, warm"  # ready to be changed and asked again
    page.evaluate("() => scrollTo(0, 0)")
    screenshot(page, "studio-generate")


def test_stop_ends_a_job_and_what_is_there_of_it_plays(server: Server, visit: Callable[..., Visitor]) -> None:
    page = visit(server.address).page
    page.goto(f"/generate?model={WAVES}")
    page.get_by_label("Seconds", exact=True).fill("3000")
    take = ask(page)
    wait_until(page, "() => document.querySelector('.take progress')?.value > 0")
    take.get_by_role("button", name="Stop").click()
    take.get_by_text("Stopped").wait_for()
    play(page, take.locator("audio"))


def test_dragging_over_a_spectrogram_says_which_stretch_to_make_anew(
    server: Server, visit: Callable[..., Visitor]
) -> None:
    page = visit(server.address, viewport={"width": 1280, "height": 1000}).page
    clip = first_clip(page, Text="a b")

    def drag(image: "Locator", start: float, stop: float) -> None:
        image.scroll_into_view_if_needed()
        box = image.bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + start * box["width"], middle)
        page.mouse.down()
        page.mouse.move(box["x"] + (start + stop) / 2 * box["width"], middle)
        page.mouse.move(box["x"] + stop * box["width"], middle)
        page.mouse.up()

    drag(clip.locator(".plot img"), 0.2, 0.6)
    clip.get_by_role("link", name="anew").click()
    page.wait_for_url(re.compile("how=inpaint"))

    def chosen() -> list[float]:
        return [float(page.locator(f"input[name={name}]").input_value()) for name in ("from", "to")]

    assert chosen() == pytest.approx([0.2, 0.6], abs=0.01)
    drag(page.locator("#source .plot img"), 0.9, 0.5)  # backwards
    assert chosen() == pytest.approx([0.5, 0.9], abs=0.01)
    screenshot(page, "studio-stretch")
    take = ask(page)
    take.locator(".clip audio").wait_for()
    told = take.locator(".command").text_content() or ""
    assert "--inpaint" in told and "--from 0.5" in told and "--to 0.9" in told


def test_conditions_are_chosen_by_their_kinds_with_the_keyboard_on_a_phone_in_the_dark(
    server: Server, visit: Callable[..., Visitor]
) -> None:
    page = visit(server.address, viewport={"width": 390, "height": 844}, color_scheme="dark").page
    page.goto(f"/generate?model={CODES}")
    page.get_by_label("genre").select_option("folk")
    slider = page.get_by_label("bpm, as a slider")
    slider.focus()
    slider.press("End")
    assert page.get_by_label("bpm", exact=True).input_value() == "200"
    page.get_by_label("Seconds", exact=True).fill("0.1")
    take = ask(page)
    take.locator(".clip").wait_for()
    assert "--set bpm=200" in (take.locator(".command").text_content() or "")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    take.scroll_into_view_if_needed()


def test_without_scripts_one_asks_and_finds_the_clip(server: Server, visit: Callable[..., Visitor]) -> None:
    page = visit(server.address, java_script_enabled=False).page
    page.goto("/generate")
    page.get_by_label("Model").fill(CODES)
    page.get_by_role("button", name="Choose").click()
    page.get_by_label("Seconds", exact=True).fill("0.02")
    key = ask(page).get_attribute("id")
    for _ in range(600):
        page.goto("/generate")
        if page.locator(f"[id='{key}'] .clip audio").count():
            break
        page.wait_for_timeout(100)
    else:
        pytest.fail("no clip came")


def test_a_studio_that_ends_or_is_killed_while_it_draws_comes_back_and_says_so(
    visit: Callable[..., Visitor], dora_dir: Path
) -> None:
    port = 0
    for number, code in ((signal.SIGINT, 0), (signal.SIGKILL, -signal.SIGKILL)):
        running = Server([], port, SOLFA_DORA_DIR=str(dora_dir))
        port = running.port
        page = visit(running.address).page
        page.goto(f"/generate?model={WAVES}", timeout=300_000)
        page.get_by_label("Seconds", exact=True).fill("3000")
        take = ask(page)
        wait_until(page, "() => document.querySelector('.take progress')?.value > 0")
        key = take.get_attribute("id")
        page.close()
        assert running.end(number) == code
        with serving(SOLFA_DORA_DIR=str(dora_dir)) as again:
            later = visit(again.address).page
            later.goto(f"/generate?model={WAVES}", timeout=300_000)
            later.locator(f"[id='{key}']").get_by_text("Stopped.").wait_for()
            later.close()
