"""The room of datasets in a browser: search as one types, hear, see, and without scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from benchmarks.studio_search import make_many
from solfa.encoding import encode
from tests.browser.conftest import Server, Visitor, screenshot, wait_until
from tests.studio.made_dataset import FAILED, HOSTILE, make_dataset, write_audio

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser

NUM_CLIPS = 100_000


@pytest.fixture(scope="module")
def server(studios: Callable[..., Server], demo_recordings: Path, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A studio with music in the codec that comes with Solfa, very many tiny clips, and some hostile ones."""
    folder = tmp_path_factory.mktemp("datasets")
    encode(demo_recordings, folder / "music.solfa", num_encoders=1)
    make_many(folder / "many.solfa", NUM_CLIPS)
    make_dataset(folder / "small.solfa", write_audio(folder / "audio"))
    datasets = [folder / name for name in ("music.solfa", "many.solfa", "small.solfa")]
    return studios(*datasets, "--source", demo_recordings, "--source", folder / "audio", "--runs", folder)


def expect_playing(player: Locator) -> None:
    """Play a sound and see that its position moves."""
    player.evaluate("player => player.play()")
    wait_until(player.page, "player => player.currentTime > 0.05 || player.ended", arg=player.element_handle())
    assert player.evaluate("player => player.duration") > 0
    player.evaluate("player => player.pause()")


def test_among_very_many_clips_one_finds_some_as_one_types(server: Server, visit: Callable[..., Visitor]) -> None:
    page = visit(server.address).page
    page.goto("/datasets/many.solfa")
    assert page.locator(".found").inner_text() == f"{NUM_CLIPS:,} clips"
    assert page.locator("table.clips tbody tr").count() == 50
    page.keyboard.press("/")
    page.keyboard.type('piano "artist 77')
    wait_until(page, "document.querySelector('.found').textContent.includes(' of ')")
    wait_until(page, "new URL(location).searchParams.get('q') === 'piano \"artist 77'")
    rows = page.locator("table.clips tbody tr")
    assert 0 < rows.count() <= 50
    for text in rows.all_inner_texts():
        assert "piano" in text and "artist 77" in text
    page.select_option("select[name=column]", "genre")
    page.fill("input[name=value]", "jazz")
    wait_until(
        page, "[...document.querySelectorAll('table.clips tbody tr')].every(row => row.innerText.includes('jazz'))"
    )
    page.get_by_role("link", name="show all").click()
    wait_until(page, "document.querySelectorAll('table.clips tbody tr').length === 50")
    page.goto("/datasets/many.solfa?sort=meta.bpm&order=down")
    assert page.locator("table.clips tbody tr").first.inner_text().split("\t")[-1]
    page.keyboard.press("n")
    page.wait_for_url("**page=2**")
    assert "Page 2 of 2,000" in page.locator(".pager").inner_text()


def test_typing_does_not_load_the_page_again(server: Server, visit: Callable[..., Visitor]) -> None:
    page = visit(server.address).page
    page.goto("/datasets/music.solfa")
    page.evaluate("document.body.dataset.same = 'yes'")
    page.fill("input[type=search]", "choir")
    wait_until(page, "document.querySelectorAll('table.clips tbody tr').length === 1")
    page.fill("input[type=search]", "chord")
    wait_until(page, "document.querySelectorAll('table.clips tbody tr').length > 3")
    assert page.evaluate("document.body.dataset.same") == "yes"
    screenshot(page, "studio-clips")


def test_one_hears_and_sees_a_clip_before_and_after(server: Server, visit: Callable[..., Visitor]) -> None:
    page = visit(server.address).page
    page.goto("/datasets/music.solfa?sort=id")
    page.get_by_role("link", name="drums/half_time.ogg").click()
    page.wait_for_url(lambda url: "/clip?" in url)
    players = page.locator("audio")
    assert players.count() == 2
    for index in range(2):
        expect_playing(players.nth(index))
    pictures = page.locator("main img")
    assert pictures.count() == 3
    wait_until(page, "[...document.querySelectorAll('main img')].every(image => image.naturalWidth > 1)")
    assert "140" in page.locator("dl.details").inner_text()
    screenshot(page, "studio-clip", height=750)
    players.nth(1).evaluate("player => { player.currentTime = player.duration - 0.5; }")  # which needs ranges
    wait_until(page, "player => !player.seeking && player.currentTime > 1", arg=players.nth(1).element_handle())


def test_a_row_of_the_table_can_be_heard(server: Server, visit: Callable[..., Visitor]) -> None:
    page = visit(server.address).page
    page.goto("/datasets/music.solfa?q=half_time")
    button = page.locator("button.play").first
    button.click()
    wait_until(page, "document.querySelector('button.play').getAttribute('aria-pressed') === 'true'")
    button.click()
    wait_until(page, "document.querySelector('button.play').getAttribute('aria-pressed') === 'false'")


def test_hostile_text_is_text(server: Server, visit: Callable[..., Visitor]) -> None:
    page = visit(server.address).page
    shown = HOSTILE.replace("\u202e", "\\u202e")
    page.goto("/datasets/small.solfa")
    assert page.get_by_text(shown, exact=True).count() >= 1
    page.goto(f"/datasets/small.solfa/clip?id={quote('hostile.wav')}")
    assert page.locator(".caption").inner_text() == shown
    page.goto(f"/datasets/small.solfa?q={quote(HOSTILE)}")
    assert page.locator("input[type=search]").input_value() == shown
    assert "taken" not in page.title()


def test_statistics_and_failures(server: Server, visit: Callable[..., Visitor]) -> None:
    page = visit(server.address).page
    page.goto("/datasets/music.solfa/statistics")
    assert page.locator("svg.bars").count() >= 2
    page.goto("/datasets/small.solfa")
    page.get_by_role("link", name="Failures").click()
    assert all(words in page.locator("table").inner_text() for words in FAILED)


def test_without_scripts_everything_is_a_link_or_a_form(server: Server, visit: Callable[..., Visitor]) -> None:
    page = visit(server.address, java_script_enabled=False).page
    page.goto("/datasets/music.solfa")
    page.fill("input[type=search]", "choir")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url(lambda url: "choir" in url)
    assert page.locator("table.clips tbody tr").count() == 1
    assert not page.locator("button.play").first.is_visible()
    page.locator("table.clips a").last.click()
    page.wait_for_url(lambda url: "/clip?" in url)
    assert page.locator("audio").count() == 2
    page.get_by_role("link", name="Datasets").first.click()
    assert page.locator("h1").inner_text() == "Datasets"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_without_scrolling_sideways(
    server: Server, visit: Callable[..., Visitor], scheme: str
) -> None:
    size = {"width": 360, "height": 740}
    page = visit(server.address, viewport=size, color_scheme=scheme, reduced_motion="reduce").page
    for path in ("/datasets", "/datasets/music.solfa", "/datasets/music.solfa/statistics", "/datasets/small.solfa"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], path
    page.goto(f"/datasets/music.solfa/clip?id={quote('drums/half_time.ogg')}")
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_the_keyboard_reaches_the_content(server: Server, visit: Callable[..., Visitor]) -> None:
    page = visit(server.address).page
    page.goto("/datasets/music.solfa")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#content"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"


def test_two_people_at_once(server: Server, visit: Callable[..., Visitor]) -> None:
    one, other = visit(server.address).page, visit(server.address).page
    one.goto("/datasets/many.solfa")
    other.goto("/datasets/music.solfa/clip?id=chords/warm_pad.flac", wait_until="commit")  # which is being decoded
    one.fill("input[type=search]", "flute bass")
    wait_until(one, "new URL(location).searchParams.get('q') === 'flute bass'")
    assert all("flute" in text and "bass" in text for text in one.locator("table.clips tbody tr").all_inner_texts())
    expect_playing(other.locator("audio").last)
