"""The room of runs: what a page says about a run is what its folder says, and buttons do what a terminal does."""

import html
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from solfa.errors import SolfaError
from solfa.generate.clip import GeneratedClip
from solfa.ui.clip_files import write_index, write_sample
from solfa.xp.failure import record_failure
from tests.studio.made_dataset import HOSTILE

HERE = {"origin": "http://127.0.0.1:8100"}
HISTORY = [
    {"train": {"loss": 4.0 - epoch}, "valid": {"loss": 5.0 - epoch}, "evaluate": {"kad": 9.0 - epoch, "kad_low": 8.0}}
    for epoch in range(3)
]
HOLDER = """
import sys, time
from pathlib import Path
from solfa.environment.stop_signals import StopSignals
from solfa.xp.lock import locked
with locked(Path(sys.argv[1])), StopSignals() as signals:
    print("held", flush=True)
    while not signals.number:
        time.sleep(0.01)
sys.exit(128 + signals.number)
"""


@pytest.fixture(scope="module")
def pristine_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs in every state but running; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "xps"
    for name, epochs in {"d0ne0001": 3, "5t0pped1": 9, "fa11ed01": 9, "dead0001": 9, "never001": None}.items():
        run = folder / name
        run.mkdir(parents=True)
        (run / ".argv.json").write_text(json.dumps(["solver=lm/debug", f"note={HOSTILE}"]))
        if epochs is not None:
            (run / "config.json").write_text(json.dumps({"optim": {"epochs": epochs, "lr": 0.1}, "name": name}))
            (run / "history.json").write_text(json.dumps(HISTORY))
            (run / "solver.log.0").write_text(f"first line\n\x1b[32mlast {HOSTILE}\x1b[0m\n")
    record_failure(folder / "fa11ed01", SolfaError("the loss is not finite"))
    killed = _hold(folder / "dead0001")
    killed.kill()
    killed.wait()
    assert killed.stdout is not None
    killed.stdout.close()
    return folder


@pytest.fixture
def xps_dir(pristine_runs: Path, tmp_path: Path) -> Path:
    """A copy of them to do anything with."""
    return Path(shutil.copytree(pristine_runs, tmp_path / "runs/xps"))


@pytest.fixture
def client(make_client: Callable[..., TestClient], xps_dir: Path) -> TestClient:
    return make_client()


def _hold(folder: Path) -> subprocess.Popen[str]:
    """Run something that keeps the lock of an experiment as training does."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def running(xps_dir: Path) -> Iterator[subprocess.Popen[str]]:
    process = _hold(xps_dir / "5t0pped1")
    yield process
    if process.poll() is None:
        process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def states(page: str) -> dict[str, str]:
    """Read the table of runs: the first word of each state."""
    rows = re.findall(r'<tr>.*?href="/runs/(\w+)".*?<span class="state [\w-]+">([^<]*)', page, re.DOTALL)
    return {name: words.partition(":")[0] for name, words in rows}


def test_what_a_run_did_to_the_weights_it_started_from_is_said_on_its_page(client: TestClient, xps_dir: Path) -> None:
    run = xps_dir / "d0ne0001"
    assert "evidence.html" not in client.get("/runs/d0ne0001").text
    (run / "evidence.json").write_text(json.dumps({"outcome": "it changed", "sentence": f"it changed {HOSTILE}"}))
    page = client.get("/runs/d0ne0001").text
    assert f"it changed {html.escape(HOSTILE, quote=False)[:20]}" in page and str(run / "evidence.html") in page
    (run / "evidence.json").write_text("{")
    damaged = client.get("/runs/d0ne0001")
    assert damaged.status_code == 200 and "evidence.json" in damaged.text


def test_a_run_leads_to_generate_if_it_has_weights_that_make_clips(client: TestClient, xps_dir: Path) -> None:
    link = 'href="/generate?model=d0ne0001"'
    assert link not in client.get("/runs/d0ne0001").text
    (xps_dir / "d0ne0001/best.pt").touch()
    assert link in client.get("/runs/d0ne0001").text
    (xps_dir / "d0ne0001/config.json").write_text(json.dumps({"solver": "compression", "optim": {"epochs": 3}}))
    assert link not in client.get("/runs/d0ne0001").text


def test_what_appears_while_a_run_goes_on_has_its_place_on_the_page_from_the_beginning(
    client: TestClient, xps_dir: Path
) -> None:
    def parts(address: str) -> set[str]:
        return set(re.findall(r'data-part="([^"]+)"', client.get(address).text))

    (history,) = [xps_dir / "d0ne0001/history.json"]
    history.write_text(json.dumps([{"train": {f"metric{number}": 1.0 for number in range(6)}}]))
    assert "2 more metrics" in client.get("/runs/d0ne0001").text
    assert parts("/runs/d0ne0001") == parts("/runs/never001")
    many = parts("/runs")
    for folder in list(xps_dir.iterdir())[1:]:
        shutil.rmtree(folder)
    assert parts("/runs") == many


def test_every_state_is_in_the_list(client: TestClient, running: subprocess.Popen[str]) -> None:
    found = states(client.get("/runs").text)
    assert found == {
        "d0ne0001": "done",
        "5t0pped1": "running",
        "fa11ed01": "failed",
        "dead0001": "dead",
        "never001": "never ran",
    }


def test_a_run_has_its_curves_its_log_and_its_settings(client: TestClient) -> None:
    page = client.get("/runs/fa11ed01").text
    labels = [html.unescape(label) for label in re.findall(r'aria-label="([^"]*epochs:[^"]*)"', page)]
    assert labels == [
        "loss over 3 epochs: train from 4 to 2; valid from 5 to 3",
        "kad over 3 epochs: evaluate from 9 to 7; evaluate low from 8 to 8",
    ]
    assert "the loss is not finite" in page
    assert "first line" in page and "\x1b" not in page
    assert "<dt>optim.epochs</dt><dd>9</dd>" in page
    assert "<script>document" not in page and "\u202e" not in page


def test_what_differs_between_two_runs(client: TestClient) -> None:
    page = client.get("/runs/differences?run=d0ne0001&run=5t0pped1").text
    rows = re.findall(r"<tr><td>([^<]+)</td><td>([^<]*)</td><td>([^<]*)</td></tr>", page)
    assert rows == [("optim.epochs", "3", "9"), ("name", "d0ne0001", "5t0pped1")]
    assert client.get("/runs/differences?run=d0ne0001").status_code == 400
    assert client.get("/runs/differences?run=d0ne0001&run=..").status_code == 404


def test_samples_stand_in_a_row_for_each_seed(client: TestClient, xps_dir: Path) -> None:
    samples = xps_dir / "d0ne0001/samples"
    for epoch in (2, 10):
        for name in ("a & b", "c"):
            audio = np.full((1, 800), 0.001 * epoch, np.float32)
            told = {"text": HOSTILE} if name == "c" else {"conditions": {"description": "a slow theme", "bpm": 90}}
            clip = GeneratedClip(name, audio, 8000, told)
            (samples / str(epoch)).mkdir(parents=True, exist_ok=True)
            write_sample(clip, samples / str(epoch))
    write_index(samples)
    page = client.get("/runs/d0ne0001").text
    assert re.findall(r'<th scope="col">(Epoch \d+)</th>', page) == ["Epoch 2", "Epoch 10"]
    sounds = [html.unescape(found) for found in re.findall(r'<audio[^>]* src="([^"]+)"', page)]
    assert len(sounds) == 4
    assert '<span class="quiet">a slow theme</span>' in page
    files = sorted(samples.rglob("*.wav"))
    assert sorted(client.get(sound).content for sound in sounds) == sorted(file.read_bytes() for file in files)
    part = client.get(sounds[0], headers={"range": "bytes=0-3"})
    assert (part.status_code, part.content) == (206, b"RIFF")
    assert "<script>document" not in page


@pytest.mark.parametrize(
    "path",
    [
        "/runs/none",
        "/runs/%2e%2e",
        "/runs/d0ne0001/samples/1/..%2f..%2fconfig.json",
        "/runs/d0ne0001/samples/1/.lock",
        "/runs/%2e%2e%2fxps",
    ],
)
def test_nothing_outside_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_stop_sends_what_a_terminal_sends(client: TestClient, running: subprocess.Popen[str]) -> None:
    assert 'action="/runs/5t0pped1/stop"' in client.get("/runs/5t0pped1").text
    assert client.post("/runs/5t0pped1/stop").status_code == 403  # from nowhere
    assert running.poll() is None
    assert client.post("/runs/5t0pped1/stop", headers=HERE).status_code == 200
    assert running.wait(30) == 128 + signal.SIGTERM
    assert states(client.get("/runs").text)["5t0pped1"] == "stopped"
    assert 'action="/runs/5t0pped1/resume"' in client.get("/runs/5t0pped1").text


def test_what_does_not_run_cannot_be_stopped_and_what_runs_not_resumed(
    client: TestClient, running: subprocess.Popen[str]
) -> None:
    assert client.post("/runs/d0ne0001/stop", headers=HERE).status_code == 400
    assert client.post("/runs/5t0pped1/resume", headers=HERE).status_code == 400
    assert running.poll() is None
