"""A report is one valid page that loads nothing, escapes everything and says what it leaves out."""

import base64
import io
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
import soundfile

from solfa.evaluate.statistics import code_statistics, latent_statistics, length_histogram
from solfa.ui.html.cards import clip_card
from solfa.ui.html.report import MAX_FAILURES, render_report, write_report
from solfa.ui.html.report_data import ClipCard, Fact, FailureRow, ReportPage, Sound, WrittenClip

EVIL = "<script>alert('x')</script>\"><img src=x onerror=y>\x1b[31m\u202e"
VOID = {"meta", "img", "br", "hr"}


class Checker(HTMLParser):
    """Collects tags and attributes, and fails where tags do not balance."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"<{tag}> has an attribute twice"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        self.text.append(data)


def check(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert not checker.open
    return checker


def sound(seconds: float, sample_rate: int = 16_000, num_channels: int = 1) -> Sound:
    time = np.arange(round(seconds * sample_rate)) / sample_rate
    return Sound(np.tile(0.5 * np.sin(2 * np.pi * 440 * time), (num_channels, 1)).astype(np.float32), sample_rate)


def codes_page(text: str = "plain") -> ReportPage:
    codes = np.random.default_rng(0).integers(0, 1024, (100, 4)).astype(np.uint16)
    card = ClipCard(text, 2.0, codes, 1024, text, {text: text, "nested": {"list": [text]}}, sound(2.0), sound(2.0))
    return ReportPage(
        title=text,
        subtitle=text,
        written_by=text,
        written=(WrittenClip(text, text, sound(2.0), {text: text}),),
        facts=(Fact(text, text, text),),
        details=(Fact(text, text),),
        cards=(card,),
        failures=(FailureRow(text, text),),
        lengths=length_histogram(np.array([2.0, 3.0])),
        codes=code_statistics([codes], 1024),
        statistics_note=text,
    )


def latents_page() -> ReportPage:
    latents = np.random.default_rng(0).standard_normal((50, 16)).astype(np.float16)
    latents[3, 5] = np.nan
    return ReportPage(title="latents", cards=(ClipCard("a", 1.0, latents),), latents=latent_statistics([latents]))


@pytest.mark.parametrize("page", [codes_page(), latents_page(), ReportPage("empty")], ids=["codes", "latents", "empty"])
def test_the_page_is_balanced_and_loads_nothing(page):
    html = render_report(page)
    checker = check(html)
    assert html.startswith("<!doctype html>")
    assert not any(tag in ("script", "link", "iframe", "object", "base") for tag, _ in checker.tags)
    for tag, attributes in checker.tags:
        for name in ("src", "href", "srcset", "poster", "data", "action"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, name)
    without_data = re.sub(r"data:[a-z/]+;base64,[A-Za-z0-9+/=]*", "", html)
    assert not re.search(r"https?://|@import|url\(", without_data)
    policy = next(a["content"] for t, a in checker.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "script" not in policy
    assert all(attributes.get("alt") for tag, attributes in checker.tags if tag == "img")
    assert all(attributes.get("aria-label") for tag, attributes in checker.tags if tag in ("svg", "audio"))


def test_foreign_text_stays_text_everywhere():
    plain, evil = check(render_report(codes_page())), check(render_report(codes_page(EVIL)))
    assert [tag for tag, _ in evil.tags] == [tag for tag, _ in plain.tags]
    assert not any(name.startswith("on") for _, attributes in evil.tags for name in attributes)
    text = "".join(evil.text)
    assert text.count("<script>alert('x')</script>") >= 10
    assert "\x1b" not in text and "\\x1b[31m" in text
    assert "\u202e" not in text and "\\u202e" in text


def test_what_a_model_wrote_comes_first_with_its_text():
    page = replace(codes_page(), written_by="a model", written=(WrittenClip("1", "slow chords", sound(3.0)),))
    html = render_report(page)
    places = [html.index(text) for text in ("Music that a model wrote", "slow chords", "Clips to listen to")]
    assert places == sorted(places) and html.count("<audio") == 3
    assert "wrote" not in render_report(replace(page, written=()))


def test_sounds_are_lossless_and_long_ones_are_cut_and_say_so():
    codes = np.zeros((10, 1), np.uint16)
    card = clip_card(ClipCard("long", 20.0, codes, 256, original=sound(20.0, num_channels=2), decoded=sound(1.0)))
    uris = re.findall(r"data:audio/flac;base64,([A-Za-z0-9+/=]+)", card)
    (first, _), (second, rate) = (soundfile.read(io.BytesIO(base64.b64decode(uri)), always_2d=True) for uri in uris)
    assert first.shape == (15 * 16_000, 2) and second.shape == (16_000, 1) and rate == 16_000
    assert np.abs(second.T - sound(1.0).audio).max() < 1e-4
    assert card.count("first 15 s of 20 s") == 1


def test_a_sound_that_clips_or_is_not_a_number_is_shown_with_a_warning():
    audio = sound(0.5).audio.copy()
    audio[0, :3] = np.nan
    audio[0, 3] = 2.0
    card = clip_card(ClipCard("odd", 0.5, np.zeros((5, 1), np.uint16), 256, decoded=Sound(audio, 16_000)))
    assert "clipped in the player" in card and "3 samples are not numbers" in card and "peak 6.0 dB" in card


def test_scores_compare_original_and_decoded():
    original = sound(1.0)
    noisy = Sound(original.audio * 0.9, 16_000)
    card = clip_card(ClipCard("a", 1.0, np.zeros((5, 1), np.uint16), 256, original=original, decoded=noisy))
    assert "Signal to noise <b>20.0 dB</b>" in card
    assert "Signal to noise" not in clip_card(ClipCard("a", 1.0, np.zeros((5, 1), np.uint16), 256, original=original))


def test_a_clip_without_frames_or_samples_has_a_card():
    empty = Sound(np.zeros((1, 0), np.float32), 16_000)
    check(clip_card(ClipCard("empty", 0.0, np.zeros((0, 4), np.uint16), 1024, original=empty, decoded=empty)))


def test_only_the_first_failures_are_listed_and_the_rest_is_counted():
    failures = tuple(FailureRow(f"clip {number}", "broken") for number in range(MAX_FAILURES + 5))
    html = render_report(ReportPage("many", failures=failures))
    assert "205 recordings" in html and "5 more recordings" in html and 'class="alarm"' in html
    assert f"clip {MAX_FAILURES - 1}<" in html and f"clip {MAX_FAILURES}<" not in html
    assert 'class="alarm"' not in render_report(ReportPage("none"))


def test_histograms_say_entropy_perplexity_and_use():
    codes = np.repeat(np.arange(256, dtype=np.uint16), 2)[:, None]
    html = render_report(ReportPage("codes", codes=code_statistics([codes], 512)))
    assert "entropy <b>8.00</b> of 9 bits" in html
    assert "perplexity <b>256</b>" in html
    assert "used <b>50 %</b>" in html


def test_writing_replaces_the_page_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "deep" / "report.html"
    for title in ("one", "two"):
        write_report(ReportPage(title), path)
    assert "<title>two</title>" in path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_pages_are_made_without_torch():
    code = "import sys, solfa.ui.html.report, solfa.ui.html.dataset_page; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
