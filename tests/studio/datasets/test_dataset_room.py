"""The room of datasets: tables, clips, sounds and pictures, as a browser without scripts gets them."""

import html
import io
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import soundfile
from starlette.testclient import TestClient

from solfa.codecs import load_codec
from solfa.encoding import encode
from solfa.store import Dataset, open_dataset
from solfa.studio.datasets import shelf
from solfa.studio.datasets.clip_copies import ClipCopy, CopyLookup
from tests.studio.made_dataset import FAILED, HOSTILE, TONES

CLIPS = "/datasets/small.solfa"


@pytest.fixture
def client(make_client: Callable[..., TestClient], small_dataset: Path, small_audio: Path) -> TestClient:
    return make_client(small_dataset, sources=[small_audio])


def ids_on(page: str) -> list[str]:
    """List the clips of a table, in its order."""
    return [html.unescape(found) for found in re.findall(r'/clip\?id=[^"]*">([^<]*)</a>', page)]


def test_the_table_has_every_clip_and_every_failure(client: TestClient) -> None:
    page = client.get(CLIPS).text
    assert ids_on(page) == [tone.id for tone in TONES]
    assert FAILED[0] in page
    assert "6 clips" in page


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=drum", [0, 1]),
        ("q=DRUM+wet", [1]),
        ("q=%22a+dry+drum%22+jazz", [0]),
        ("q=%22dry+a", []),
        ("q=%22", [0, 1, 2, 3, 4]),
        ("q=fl%C3%BBte", [2]),
        ("q=flu%CC%82te", [2]),  # the accent as a character of its own
        ("q=z%C3%BCrich", [2]),
        ("q=zo%C3%AB", [3]),
        ("q=nothing+like+it", []),
        ("min=0.5&max=0.9", [1, 3, 4]),
        ("status=ok&min=0.5&max=0.6", [4]),
        ("column=bpm&value=60..100", [0, 2]),
        ("column=bpm&value=90", [0]),
        ("column=bpm&value=..", [0, 1, 2]),
        ("column=genre&value=Tech", [1]),
        ("column=tags&value=dry", [0]),
        ("column=unknown&value=1", []),
        ("sort=seconds&status=ok", [0, 4, 1, 3, 2]),
        ("sort=seconds&order=down&status=ok", [2, 3, 1, 4, 0]),
        ("sort=meta.bpm&min=0", [2, 0, 1, 3, 4]),
        ("sort=unknown&q=drum", [0, 1]),
        ("min=nonsense&max=nan&page=-3&q=wet", [1]),
        ("page=1e99&q=wet", [1]),
    ],
)
def test_search_filters_and_order(client: TestClient, query: str, found: list[int]) -> None:
    assert ids_on(client.get(f"{CLIPS}?{query}").text) == [TONES[index].id for index in found]


def test_failures_have_reasons(client: TestClient) -> None:
    for page in (client.get(f"{CLIPS}/failures").text, client.get(f"{CLIPS}?status=failed").text):
        assert FAILED[0] in page
        assert html.escape(FAILED[1]) in page
        assert ids_on(page) == []


def test_hostile_text_is_shown_as_text_everywhere(client: TestClient) -> None:
    address = f"{CLIPS}/clip?id={quote('hostile.wav')}"
    for page in (client.get(CLIPS).text, client.get(address).text, client.get(f"{CLIPS}?q={quote(HOSTILE)}").text):
        assert "<script>document" not in page
        assert "<img src=x" not in page
        assert "\u202e" not in page
    assert HOSTILE.replace("\u202e", "\\u202e") in html.unescape(client.get(address).text)


def test_decoded_audio_is_what_the_codec_decodes(client: TestClient, small_dataset: Path) -> None:
    dataset, codec = open_dataset(small_dataset), load_codec("mulaw")
    for clip in dataset:
        answer = client.get(f"{CLIPS}/decoded.flac?id={quote(clip.id, safe='')}")
        assert answer.headers["content-type"] == "audio/flac"
        heard, rate = soundfile.read(io.BytesIO(answer.content), dtype="int16")
        expected = np.round(codec.decode(clip).numpy()[0] * 32768.0).clip(-32768, 32767).astype(np.int16)
        assert rate == codec.sample_rate
        np.testing.assert_array_equal(heard, expected)


def test_original_audio_is_the_recording(client: TestClient, small_audio: Path) -> None:
    answer = client.get(f"{CLIPS}/original.flac?id=hostile.wav")
    heard, _ = soundfile.read(io.BytesIO(answer.content), dtype="int16")
    recording, _ = soundfile.read(small_audio / "hostile.wav", dtype="int16")
    np.testing.assert_array_equal(heard, recording)


def test_without_the_source_there_is_no_original(make_client: Callable[..., TestClient], small_dataset: Path) -> None:
    client = make_client(small_dataset)
    assert "original.flac" not in client.get(f"{CLIPS}/clip?id=hostile.wav").text
    assert client.get(f"{CLIPS}/original.flac?id=hostile.wav", headers={"accept": "*/*"}).status_code == 400


def test_a_clip_has_its_pictures_and_leads_to_its_neighbours(client: TestClient) -> None:
    page = client.get(f"{CLIPS}/clip?id={quote(TONES[1].id)}").text
    pictures = [html.unescape(found) for found in re.findall(r'<img[^>]* src="([^"]+)"', page)]
    assert len(pictures) == 3
    for picture in pictures:
        assert client.get(picture).content.startswith(b"\x89PNG")
    for neighbour in (TONES[0], TONES[2]):
        assert f"/clip?id={quote(neighbour.id)}" in page
    assert "jazz" not in page and "techno" in page


def test_copies_are_found_when_somebody_asks(make_client: Callable[..., TestClient], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    glides = np.cumsum(rng.uniform(200, 3000, 60).repeat(1600)) * 2 * np.pi / 16000
    soundfile.write(tmp_path / "song.wav", 0.3 * np.sin(glides), 16000)
    soundfile.write(tmp_path / "again.wav", 0.2 * np.sin(glides[8000:]), 16000)
    soundfile.write(tmp_path / "other.wav", 0.3 * np.sin(glides[::-1] * 1.37), 16000)
    dataset = tmp_path / "songs.solfa"
    encode(tmp_path, dataset, codec=load_codec("mulaw"), segment_seconds=0)
    client = make_client(dataset)
    address = "/datasets/songs.solfa/clip?id=song.wav"
    asking = re.findall(r'href="([^"]*copies=1[^"]*)#copies"', client.get(address).text)
    page = client.get(html.unescape(asking[0])).text
    assert re.findall(r'<dt><a href="[^"]*">([^<]*)</a></dt><dd>[^<]*landmarks', page) == ["again.wav"]
    assert "No other clip" in client.get("/datasets/songs.solfa/clip?id=other.wav&copies=1").text


def test_a_dataset_without_fingerprints_says_how_to_add_them(
    make_client: Callable[..., TestClient], tmp_path: Path, small_audio: Path
) -> None:
    encode(small_audio, tmp_path / "old.solfa", codec=load_codec("mulaw"), fingerprints=False)
    first = open_dataset(tmp_path / "old.solfa").ids()[0]
    answer = make_client(tmp_path / "old.solfa").get(f"/datasets/old.solfa/clip?id={quote(first)}&copies=1")
    assert answer.status_code == 400 and "solfa fingerprint" in answer.text


def test_an_unexpected_error_is_a_sentence_with_every_header(
    make_client: Callable[..., TestClient], small_dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(lookup: CopyLookup, dataset: Dataset, clip_id: str) -> list[ClipCopy]:
        raise RuntimeError("the finder fell over")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(CopyLookup, "copies", fail)
    client = make_client(small_dataset)
    quiet = TestClient(client.app, client.base_url, raise_server_exceptions=False, headers={"accept": "text/html"})
    answer = quiet.get(f"{CLIPS}/clip?id=hostile.wav&copies=1")
    assert answer.status_code == 500
    assert "the finder fell over" in answer.text
    assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_statistics_of_the_whole(client: TestClient) -> None:
    page = client.get(f"{CLIPS}/statistics").text
    assert "Clip lengths" in page and "Codebook usage" in page and "mulaw" in page
    assert "1 recording" in page and "listed below" not in page  # they have a page of their own


def test_clips_that_failed_are_counted_apart(client: TestClient) -> None:
    assert "6 clips, 1 of them failed" in client.get(CLIPS).text
    assert "failed" not in client.get(f"{CLIPS}?q=drum").text.partition("show all")[0].partition('role="status">')[2]


@pytest.mark.parametrize("path", ["/datasets/none", f"{CLIPS}/clip?id=none", f"{CLIPS}/other.flac?id=hostile.wav"])
def test_what_is_not_there_is_not_found(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_dataset_that_grows_is_shown_as_it_is(
    make_client: Callable[..., TestClient], small_audio: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from solfa.store import Outcome, PlannedClip, append_arrays
    from tests.studio.made_dataset import make_dataset

    monkeypatch.setattr(shelf, "LOOK_SECONDS", 0.0)
    grown = make_dataset(tmp_path / "grown.solfa", small_audio)
    client = make_client(grown)
    assert "late.wav" not in client.get("/datasets/grown.solfa").text
    late = Outcome(PlannedClip("late.wav", "late.wav", "late.wav", num_samples=9), np.zeros((9, 1), np.uint16), 9)
    append_arrays(grown, open_dataset(grown).info, [late], {"made": "2"})
    assert "late.wav" in client.get("/datasets/grown.solfa").text
