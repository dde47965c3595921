"""Encode: files that are sent become a dataset on the shelf, as `solfa encode` would make it, and can be heard."""

import html
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import soundfile
from starlette.testclient import TestClient

import solfa
from solfa.encoding import Totals
from solfa.studio.access import Access
from solfa.studio.app import make_app
from solfa.studio.context import Studio
from solfa.studio.datasets.shelf import Shelf
from solfa.studio.encode.encode_answers import JobListener
from solfa.studio.uploads import safe_name
from tests.conftest import write_tone
from tests.studio.conftest import PORT
from tests.studio.job_threads import wait_for_jobs

HERE = {"origin": f"http://127.0.0.1:{PORT}"}


class Sender:
    """Somebody at the room of encoding."""

    def __init__(self, dora_dir: Path) -> None:
        self.studio = Studio(Shelf(), dora_dir, Access(PORT))
        self.client = TestClient(make_app(self.studio), f"http://127.0.0.1:{PORT}", headers={"accept": "text/html"})

    def send(self, files: list[tuple[str, bytes]], **typed: str) -> Any:
        sent = [("files", (name, content)) for name, content in files] or [("files", ("", b""))]
        answer = self.client.post("/encode", data=typed, files=sent, headers=HERE, follow_redirects=False)
        self.wait()
        return answer

    def resume(self, name: str) -> None:
        answer = self.client.post(f"/encode/{name}/resume", headers=HERE, follow_redirects=False)
        assert answer.status_code == 303
        self.wait()

    def wait(self) -> None:
        wait_for_jobs()


@pytest.fixture
def sender(tmp_path: Path) -> Sender:
    return Sender(tmp_path / "dora")


@pytest.fixture
def tone(tmp_path: Path) -> bytes:
    return write_tone(tmp_path / "tone.wav", 0.3, 8000).read_bytes()


@pytest.mark.slow  # it starts encoder processes
def test_files_become_a_dataset_that_is_heard_beside_the_originals(sender: Sender, tone: bytes, tmp_path: Path) -> None:
    files = [("a/../kick <1>.wav", tone), ("kick.wav", tone), ("kick.txt", b"a kick"), ("broken.wav", b"no audio")]
    answer = sender.send(files, codec="mulaw:sample_rate=8000", name="my kicks")
    assert answer.headers["location"] == "/encode#my-kicks"
    job = sender.studio.jobs.find("encode-my-kicks")
    assert job is not None and job.state == "done", job and job.note
    folder = tmp_path / "dora/studio/encoded/my-kicks"
    dataset = solfa.open_dataset(folder / "my-kicks.solfa")
    assert {clip.id for clip in dataset} == {"kick _1_.wav", "kick.wav"}
    assert dataset["kick.wav"].caption == "a kick"
    solfa.encode(folder / "audio", tmp_path / "typed.solfa", codec=solfa.load_codec("mulaw:sample_rate=8000"))
    assert solfa.open_dataset(tmp_path / "typed.solfa").digest == dataset.digest
    page = html.unescape(sender.client.get("/encode").text)
    assert "2 clips" in page and "1 failed" in page
    for version in ("original", "decoded"):
        (address,) = set(re.findall(rf'src="(/datasets/my-kicks.solfa/{version}.flac\?id=kick.wav)"', page))
        audio, rate = soundfile.read(io.BytesIO(sender.client.get(address).content))
        assert rate == 8000 and len(audio) == 2400
    assert "my-kicks.solfa" in sender.client.get("/datasets").text
    again = Sender(tmp_path / "dora")  # a studio that was started again
    assert "my-kicks.solfa" in again.client.get("/datasets").text
    assert "kick.wav" in again.client.get("/encode").text
    again.resume("my-kicks")
    assert solfa.open_dataset(folder / "my-kicks.solfa").digest == dataset.digest


@pytest.mark.slow  # it starts encoder processes
def test_a_dataset_that_was_stopped_is_finished_later(
    sender: Sender, tone: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_at_first_report(listener: JobListener, done: Totals, clips: int, seconds: float) -> None:
        monkeypatch.undo()
        sender.studio.jobs.stop("encode-kicks")
        listener.encoding(done, clips, seconds)

    monkeypatch.setattr(JobListener, "encoding", stop_at_first_report)
    sender.send([("kick.wav", tone)], codec="mulaw:sample_rate=8000", name="kicks")
    job = sender.studio.jobs.find("encode-kicks")
    assert job is not None and job.state == "stopped", job and job.note
    assert "Go on" in sender.client.get("/encode").text
    sender.resume("kicks")
    assert [clip.id for clip in solfa.open_dataset(tmp_path / "dora/studio/encoded/kicks/kicks.solfa")] == ["kick.wav"]
    assert "Go on" not in sender.client.get("/encode").text


@pytest.mark.parametrize(
    ("files", "typed", "words"),
    [
        ([], {}, ["files", "none"]),
        ([("a.wav", b"x")], {"codec": "mulow"}, ["mulow", "mulaw"]),
        ([("a.wav", b"x")], {"codec": "embedder"}, ["embedder", "decode"]),
        ([("a.wav", b"x")], {"name": "///"}, ["name"]),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_kept(
    sender: Sender, tmp_path: Path, files: list[tuple[str, bytes]], typed: dict[str, str], words: list[str]
) -> None:
    answer = sender.send(files, **{"codec": "mulaw", **typed})
    assert answer.status_code == 400
    (sentence,) = re.findall(r'role="alert">(.*?)</p>', answer.text)
    assert all(word in html.unescape(sentence) for word in words), sentence
    assert not list(tmp_path.glob("dora/studio/encoded/*"))


def test_a_name_is_taken_once(sender: Sender, tmp_path: Path) -> None:
    (tmp_path / "dora/studio/encoded/kicks").mkdir(parents=True)
    answer = sender.send([("a.wav", b"x")], codec="mulaw", name="kicks")
    assert answer.status_code == 400 and "already" in answer.text


def test_too_much_is_refused_before_it_is_read(make_client: Callable[..., TestClient]) -> None:
    headers = {**HERE, "content-type": "multipart/form-data; boundary=x", "content-length": str(10**10)}
    answer = make_client().post("/encode", content=b"", headers=headers)
    assert answer.status_code == 413 and "at most" in answer.text
    # A body without a length is none that could be bounded before it is read.
    chunked = make_client().post("/encode", content=iter([b"x"]), headers={**HERE, "content-type": "text/plain"})
    assert chunked.status_code == 411


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "C:\\x\\y.wav", "..", ".", "", "\x00.wav", "a\u202eb.wav", "x" * 400 + ".wav", "é" * 300],
)
def test_a_name_leads_nowhere_and_fits(name: str) -> None:
    safe = safe_name(name)
    assert safe and not re.search(r"[/\\\x00]", safe) and safe.isprintable()
    assert safe not in (".", "..") and not safe.startswith(".") and len(safe.encode()) < 200
    assert safe_name(safe) == safe
