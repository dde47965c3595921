"""Encode in a browser: drop files on the page, watch them, and hear what came of them beside the originals."""

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser.conftest import Server, Visitor, screenshot, wait_until
from tests.conftest import write_tone

pytestmark = pytest.mark.browser

DROP = """files => {
  const carried = new DataTransfer();
  for (const [name, content] of files) {
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    carried.items.add(new File([bytes], name, { type: "audio/wav" }));
  }
  for (const kind of ["dragover", "drop"])
    document.body.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: carried }));
}"""


def test_files_that_are_dropped_are_encoded_and_heard(
    studios: Callable[..., Server], visit: Callable[..., Visitor], tmp_path: Path
) -> None:
    server = studios("--runs", tmp_path)
    page = visit(server.address, viewport={"width": 1280, "height": 900}).page
    page.goto("/encode")
    tones = [write_tone(tmp_path / f"tone {index}.wav", 1.5, 24_000, hz=300.0 * index) for index in (1, 2)]
    page.evaluate(DROP, [(tone.name, base64.b64encode(tone.read_bytes()).decode()) for tone in tones])
    page.get_by_text("tone 1.wav, tone 2.wav").wait_for()
    page.get_by_label("Name of the dataset").fill("tones")
    page.get_by_role("button", name="Encode").click()
    page.locator("#tones progress, #tones .clip").first.wait_for()
    page.locator("#tones .clip").nth(1).wait_for(timeout=240_000)
    wait_until(page, "() => [...document.querySelectorAll('#tones img')].slice(0, 2).every((one) => one.naturalWidth)")
    for number in (0, 1):
        player = page.locator("#tones audio").nth(number)
        player.evaluate("player => player.play()")
        wait_until(page, "number => document.querySelectorAll('#tones audio')[number].currentTime > 0.2", number)
    screenshot(page, "studio-encode")
    page.get_by_role("link", name="Datasets").click()
    page.get_by_role("link", name="tones.solfa").wait_for()
