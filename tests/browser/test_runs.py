"""The room of runs in a browser, while a real run trains: curves that grow, samples to hear, stop and resume."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from solfa.xp.lock import read_lock
from solfa.xp.record import list_experiments, read_experiment
from tests.browser.conftest import Server, Visitor, screenshot, wait_until

pytestmark = pytest.mark.browser

DONE = ("solver=lm/debug", "optim.epochs=3", "evaluate.metrics=[kad]", "evaluate.num_clips=4", "evaluate.seconds=1")
LONG = ("solver=lm/debug", "optim.epochs=2000", "optim.updates_per_epoch=4", "evaluate.every=null")


@pytest.fixture(scope="module")
def dora_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where runs are kept, one of them done; whatever the tests leave running is stopped."""
    folder = tmp_path_factory.mktemp("runs")
    assert train(folder, *DONE).wait(600) == 0
    yield folder
    for xp in list_experiments(folder / "xps"):
        holder = read_lock(xp)
        if holder.is_held:
            os.kill(holder.process, signal.SIGKILL)


def train(dora_dir: Path, *overrides: str) -> subprocess.Popen[bytes]:
    """Train as a person does in a terminal."""
    variables = {**os.environ, "SOLFA_DORA_DIR": str(dora_dir)}
    with (dora_dir / "terminal.log").open("ab") as output:
        command = [sys.executable, "-m", "solfa", "train", *overrides]
        return subprocess.Popen(command, env=variables, stdout=output, stderr=subprocess.STDOUT)


@pytest.fixture(scope="module")
def server(studios: Callable[..., Server], dora_dir: Path) -> Server:
    return studios("--runs", dora_dir)


@pytest.fixture(scope="module")
def done(dora_dir: Path) -> str:
    [folder] = [xp for xp in list_experiments(dora_dir / "xps") if DONE[1] in read_experiment(xp).overrides]
    return folder.name


@pytest.fixture(scope="module")
def long_run(dora_dir: Path) -> Iterator[str]:
    """A run that goes on for longer than any test."""
    process = train(dora_dir, *LONG)
    deadline = time.monotonic() + 300
    while not (
        found := [
            xp
            for xp in list_experiments(dora_dir / "xps")
            if len(read_experiment(xp).history) and LONG[1] in read_experiment(xp).overrides
        ]
    ):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    yield found[0].name
    if process.poll() is None:
        process.terminate()
    process.wait(120)


def test_a_run_that_is_done_can_be_seen_and_heard(server: Server, visit: Callable[..., Visitor], done: str) -> None:
    page = visit(server.address).page
    page.goto("/runs")
    page.get_by_role("link", name=done).click()
    assert page.locator(".state").inner_text() == "done"
    labels = [svg.get_attribute("aria-label") or "" for svg in page.locator("svg.curves").all()]
    assert any(label.startswith("loss over 3 epochs: train") and "valid" in label for label in labels)
    assert any(label.startswith("kad over 3 epochs") for label in labels)
    assert page.locator("table.grid thead th").all_inner_texts() == ["Clip", "Epoch 1", "Epoch 2", "Epoch 3"]
    player = page.locator("table.grid audio").first
    player.evaluate("player => player.play()")
    wait_until(page, "player => player.currentTime > 0.02 || player.ended", player.element_handle())
    assert "done: 3 epochs" in page.locator(".log").inner_text()
    player.evaluate("player => { player.pause(); player.currentTime = 0; }")
    screenshot(page, "studio-run", height=1240)
    page.locator("details.settings summary").click()
    assert "optim.epochs" in page.locator("details.settings").inner_text()


def test_curves_grow_while_a_run_trains_in_two_browsers_at_once(
    server: Server, visit: Callable[..., Visitor], long_run: str, dora_dir: Path
) -> None:
    pages = [visit(server.address, reduced_motion="reduce").page for _ in range(2)]
    for page in pages:
        page.goto(f"/runs/{long_run}")
        page.evaluate("document.body.dataset.same = 'yes'")
        assert page.locator(".actions .state").inner_text() == "running"
        assert page.evaluate("getComputedStyle(document.querySelector('.state'), '::before').animationName") == "none"
    seen = len(read_experiment(dora_dir / "xps" / long_run).history)
    for page in pages:
        wait_until(page, "seen => parseInt(document.querySelector('.actions .quiet')?.textContent) > seen + 1", seen)
        wait_until(page, "document.querySelectorAll('table.grid audio').length > 0")
        assert page.evaluate("document.body.dataset.same") == "yes"
        assert "epoch" in page.locator(".log").inner_text()


def test_what_is_ticked_stays_ticked_while_the_list_changes(
    server: Server, visit: Callable[..., Visitor], long_run: str, done: str
) -> None:
    page = visit(server.address).page
    page.goto("/runs")
    page.check(f"input[value='{done}']")
    page.check(f"input[value='{long_run}']")
    before = page.locator("[data-part=runs]").inner_text()
    wait_until(page, "before => document.querySelector('[data-part=runs]').innerText !== before", before)
    screenshot(page, "studio-runs", height=420)
    page.get_by_role("button", name="Compare the chosen runs").click()
    rows = page.locator("table tbody tr").all_inner_texts()
    assert any(row.split("\t")[0] == "optim.epochs" and {"3", "2000"} == {*row.split("\t")[1:]} for row in rows)
    assert page.locator("svg.curves").count() > 0


def test_a_page_comes_back_with_a_server_that_was_killed(
    visit: Callable[..., Visitor], long_run: str, dora_dir: Path
) -> None:
    first = Server(["--runs", dora_dir])
    visitor = visit(first.address)
    page = visitor.page
    page.goto(f"/runs/{long_run}")
    page.evaluate("document.body.dataset.same = 'yes'")
    first.end(signal.SIGKILL)
    wait_until(page, "!document.getElementById('connection').hidden")
    again = Server(["--runs", dora_dir], port=first.port)
    wait_until(page, "document.getElementById('connection').hidden")
    seen = len(read_experiment(dora_dir / "xps" / long_run).history)
    wait_until(page, "seen => parseInt(document.querySelector('.actions .quiet')?.textContent) > seen", seen)
    assert page.evaluate("document.body.dataset.same") == "yes"
    # Of a server that is gone a browser says so, and nothing else went wrong.
    assert all("net::ERR_" in error for error in visitor.errors)
    visitor.errors.clear()
    page.close()
    assert again.end() == 0


def test_stop_and_resume(server: Server, visit: Callable[..., Visitor], long_run: str, dora_dir: Path) -> None:
    folder = dora_dir / "xps" / long_run
    page = visit(server.address).page
    page.goto(f"/runs/{long_run}")
    first = read_lock(folder).process
    page.get_by_role("button", name="Stop").click()
    wait_until(page, "document.querySelector('.actions .state')?.textContent === 'stopped'", seconds=180)
    assert not read_lock(folder).is_held
    epochs = len(read_experiment(folder).history)
    page.get_by_role("button", name="Resume").click()
    wait_until(page, "document.querySelector('.actions .state')?.textContent === 'running'", seconds=300)
    assert read_lock(folder).process not in (0, first)
    wait_until(page, "epochs => parseInt(document.querySelector('.actions .quiet')?.textContent) > epochs", epochs)
    page.get_by_role("button", name="Stop").click()
    wait_until(page, "document.querySelector('.actions .state')?.textContent === 'stopped'", seconds=180)


def test_a_phone_shows_runs_without_scrolling_sideways(
    server: Server, visit: Callable[..., Visitor], done: str
) -> None:
    size = {"width": 360, "height": 740}
    page = visit(server.address, viewport=size).page
    for path in ("/runs", f"/runs/{done}"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], path
