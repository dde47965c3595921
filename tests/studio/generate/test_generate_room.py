"""Generate: what a page asks for is what the command line writes, in a queue that can be stopped, kept in a folder."""

import json
import os
import re
import shlex
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from starlette.testclient import TestClient

from solfa.errors import ConfigError
from solfa.generate.export import export_model
from solfa.generate.model import load_model
from solfa.studio.generate.kept_models import KeptModels
from solfa.studio.generate.take_folder import ASKED, GIVEN, OUTCOME
from solfa.xp.layout import BEST
from tests.cli.conftest import SolfaMain
from tests.studio.generate.conftest import HERE, Asker
from tests.studio.trained_models import CODES, LATENTS, WAVES

WISHES: list[dict[str, Any]] = [
    {
        "model": CODES,
        "set.genre": ["1990", "jazz"],
        "set.bpm": "120",
        "seconds": "0.005",
        "num": "2",
        "seed": "3",
        "option.temperature": "0.9",
        "option.top_k": "5",
    },
    {"model": CODES, "epoch": "1", "set.genre": "1990", "set.bpm": "70.5", "seconds": "0.005", "format": "flac"},
    {"model": LATENTS, "text": "-a b: c", "seconds": "0.2", "option.sampler": "heun", "option.steps": "3"},
    {"model": WAVES, "seconds": "0.005", "num": "3", "option.sort": "1", "option.reject_lowest": "0.4"},
]


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.iterdir() if path.is_file() and path.name not in (ASKED, OUTCOME))
    return {path.name: path.read_bytes() for path in files}


def by_command(solfa_main: SolfaMain, take: Path, out: Path) -> dict[str, bytes]:
    """Run the command that the take shows."""
    command = shlex.split(json.loads((take / ASKED).read_text())["command"])
    code, said = solfa_main(*command[1:], "--out", out)
    assert code == 0, said
    return contents(out)


@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: f"{wish['model']}-{wish.get('epoch', 'best')}")
def test_the_bytes_are_those_of_the_command_line(
    asker: Asker, solfa_main: SolfaMain, tmp_path: Path, wish: dict[str, Any]
) -> None:
    take = asker.ask(**wish)
    found = contents(take)
    assert found == by_command(solfa_main, take, tmp_path / "out")
    assert any(name.endswith((".wav", ".flac")) for name in found)
    asker.ask(**{**wish, "seed": "77"})
    assert contents(asker.ask(**wish)) == found  # of the model that was kept, after other clips


@pytest.mark.slow
def test_a_recording_is_continued_varied_and_changed_in_a_stretch_as_by_the_command_line(
    asker: Asker, solfa_main: SolfaMain, tmp_path: Path
) -> None:
    riff = tmp_path / "riff.wav"
    soundfile.write(riff, 0.1 * np.random.default_rng(1).standard_normal(4800), 24_000)
    sent = {"recording": ("../My riff.wav", riff.read_bytes(), "audio/wav")}
    first = asker.ask(sent, model=LATENTS, how="prompt", prompt_seconds="0.1", seconds="0.3")
    assert (first / GIVEN / "My riff.wav").read_bytes() == riff.read_bytes()
    takes = [first]
    (clip,) = [path.name for path in first.glob("*.wav")]
    for how in ({"how": "init", "strength": "0.5"}, {"how": "inpaint", "from": "0.05", "to": "0.1"}):
        takes.append(asker.ask(model=LATENTS, use=f"{first.name}/{clip}", **how))
    for number, take in enumerate(takes):
        assert contents(take) == by_command(solfa_main, take, tmp_path / f"out{number}")
    lengths = [soundfile.info(next(take.glob("*.wav"))).duration for take in takes]
    assert lengths[1] == lengths[2] == lengths[0]  # as long as the recording, if nothing else is said
    page = asker.client.get(f"/generate?model={LATENTS}&use={first.name}/{GIVEN}/My%20riff.wav&how=inpaint").text
    assert f"/generate/takes/{first.name}/picture.png?file=given/My%20riff.wav" in page
    picture = asker.client.get(f"/generate/takes/{first.name}/picture.png?file=given/My%20riff.wav")
    assert picture.content.startswith(b"\x89PNG")


def test_the_weights_of_an_epoch_are_others_than_the_best(asker: Asker) -> None:
    wish = {"model": CODES, "seconds": "0.005", "option.temperature": "0"}
    told = [json.loads(next(asker.ask(**wish, epoch=epoch).glob("clip*.json")).read_text()) for epoch in ("1", "2", "")]
    assert [about["provenance"]["epoch"] for about in told[:2]] == [1, 2]
    hashes = [about["provenance"]["weights_sha256"] for about in told]
    assert hashes[0] != hashes[1]
    best = told[2]["provenance"]["epoch"]
    assert hashes[best - 1] == hashes[2]  # the averages of that epoch, bit for bit
    with pytest.raises(ConfigError, match=r"epoch 9.*epochs 1, 2.*save_every"):
        load_model(asker.studio.xps_dir / CODES, epoch=9)


def test_few_models_are_kept_and_one_that_trained_on_is_loaded_again(asker: Asker, tmp_path: Path) -> None:
    kept, folder = KeptModels(most=2), asker.studio.xps_dir
    first = kept.get(folder / CODES, None)
    assert kept.get(folder / CODES, None) is first
    copy = shutil.copytree(folder / CODES, tmp_path / CODES)
    models = [kept.get(folder / WAVES, None), kept.get(copy, None)]
    assert len(kept) == 2
    assert kept.get(folder / WAVES, None) is models[0] and kept.get(folder / CODES, None) is not first
    kept.get(copy, None)
    os.utime(copy / BEST)
    assert kept.get(copy, None) is not models[1]


def test_a_form_has_what_its_model_can_be_told(asker: Asker, tmp_path: Path) -> None:
    codes = asker.client.get(f"/generate?model={CODES}").text
    labels = re.findall(r'<option value="(.*?)">', codes.partition('name="set.genre"')[2].partition("</select>")[0])
    assert labels == ["1990", "folk", "jazz"]
    assert re.search(r'name="set.bpm"[^>]*min="60[.0]*" max="200[.0]*"', codes)
    assert 'name="text"' not in codes and 'name="strength"' not in codes
    assert re.search(r'name="option.top_k"[^>]*placeholder="7"', codes)
    assert "of epoch 1<" in codes
    latents = asker.client.get(f"/generate?model={LATENTS}").text
    assert 'name="text"' in latents and 'name="strength"' in latents and ">heun</option>" in latents
    assert "temperature" not in latents.lower()
    waves = asker.client.get(f"/generate?model={WAVES}").text
    assert 'name="option.reject_lowest"' in waves and 'name="option.guidance_scale"' not in waves
    for name in ("option.sampler", "option.overlap"):
        assert f'name="{name}"' not in waves


def test_an_exported_model_is_asked_by_its_folder(asker: Asker, tmp_path: Path) -> None:
    export_model(asker.studio.xps_dir / CODES, tmp_path / "exported")
    page = asker.client.get(f"/generate?model={tmp_path / 'exported'}").text
    assert ">folk</option>" in page
    take = asker.ask(model=str(tmp_path / "exported"), seconds="0.005", seed="4")
    (own,) = load_model(asker.studio.xps_dir / CODES).generate(seconds=0.005, seed=4)
    written, _ = soundfile.read(next(take.glob("*.wav")), dtype="float32", always_2d=True)
    assert np.array_equal(written.T, own.samples())


def test_a_job_is_stopped_and_the_next_has_its_turn(asker: Asker) -> None:
    long = asker.post(model=WAVES, seconds="2000").headers["location"].rpartition("#")[2]
    waiting = asker.post(model=CODES, seconds="0.005").headers["location"].rpartition("#")[2]
    never = asker.post(model=CODES, seconds="0.005").headers["location"].rpartition("#")[2]
    page = asker.client.get("/generate").text
    assert f'action="/jobs/{long}/stop"' in page and "waiting for its turn" in page
    job = asker.studio.jobs.find(long)
    assert job is not None
    while not job.done:
        threading.Event().wait(0.005)
    for key in (never, long):
        assert asker.client.post(f"/jobs/{key}/stop", headers=HERE, follow_redirects=False).status_code == 303
    asker.wait()
    outcomes = [json.loads((asker.folder / key / OUTCOME).read_text())["state"] for key in (long, waiting, never)]
    assert outcomes == ["stopped", "done", "stopped"]
    (partial,) = (asker.folder / long).glob("*.partial.wav")
    assert f'src="/generate/takes/{long}/{partial.name}"' in asker.client.get("/generate").text


def test_what_was_generated_is_there_after_a_restart(asker: Asker) -> None:
    take = asker.ask(model=CODES, seconds="0.005", seed="5", **{"set.genre": "folk"})
    killed = asker.ask(model=CODES, seconds="0.005")
    (killed / OUTCOME).unlink()
    again = Asker(asker.studio.dora_dir)
    page = again.client.get("/generate").text
    assert f'id="{take.name}"' in page and "seed 5" in page and "folk" in page
    assert "ended meanwhile" in page
    name = next(take.glob("*.wav")).name
    answer = again.client.get(f"/generate/takes/{take.name}/{name}", headers={"range": "bytes=4-9"})
    assert answer.status_code == 206 and answer.content == (take / name).read_bytes()[4:10]


def test_older_takes_are_on_further_pages(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solfa.studio.generate.generate_answers.SHOWN_TAKES", 2)
    keys = sorted(asker.ask(model=CODES, seconds="0.005").name for _ in range(3))
    first = asker.client.get("/generate").text
    shown = re.findall(r'<article class="card take" id="(.*?)"', first)
    assert shown == keys[:0:-1]
    (older,) = re.findall(r'<a href="(.*?)">Older</a>', first)
    assert re.findall(r'<article class="card take" id="(.*?)"', asker.client.get(older).text) == keys[:1]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"model": "77777777"}, ["77777777", "no such experiment"]),
        ({"model": ""}, ["no such experiment"]),
        ({"seconds": "long"}, ["seconds", "number", "long"]),
        ({"seconds": "-1"}, ["seconds", "above 0"]),
        ({"seconds": "nan"}, ["seconds", "number"]),
        ({"seed": "1.5"}, ["seed", "whole"]),
        ({"seed": "-1"}, ["seed"]),
        ({"num": "1000000"}, ["clips", "100"]),
        ({"epoch": "9"}, ["epoch 9"]),
        ({"text": "a piano"}, ["text"]),
        ({"set.genre": "polka"}, ["genre", "polka"]),
        ({"set.bpm": "fast"}, ["bpm", "number", "fast"]),
        ({"set.mood": "sad"}, ["mood"]),
        ({"option.top_p": "3"}, ["top_p", "less than or equal to 1"]),
        ({"format": "mp3"}, ["format", "mp3"]),
        ({"how": "prompt"}, ["recording"]),
        ({"strength": "0.5"}, ["strength", "leave"]),
    ],
)
def test_what_is_wrong_is_one_sentence_and_nothing_typed_is_lost(
    asker: Asker, typed: dict[str, str], words: list[str]
) -> None:
    sentence = asker.sentence(**{"model": CODES, "set.bpm": "99", **typed})
    assert all(word in sentence for word in words), sentence
    assert not list(asker.folder.glob("*/*"))
    if typed.get("model") is None and "set.bpm" not in typed:
        page = asker.post(**{"model": CODES, "set.bpm": "99", **typed}).text
        assert re.search(r'name="set.bpm"[^>]*value="99"', page)


def test_a_recording_that_cannot_be_used_is_one_sentence_and_is_not_kept(asker: Asker) -> None:
    noise = {"recording": ("x.wav", b"this is no audio", "audio/wav")}
    assert "x.wav" in asker.sentence(noise, model=CODES, how="prompt")
    assert "only continue it" in asker.sentence(noise, model=CODES, how="init")
    assert not list(asker.folder.glob("*"))


def test_only_files_of_takes_are_shown(asker: Asker) -> None:
    take = asker.ask(model=CODES, seconds="0.005")
    (take / "link.wav").symlink_to("/etc/hostname")
    for address in (
        f"/generate/takes/{take.name}/..%2F..%2Fxps",
        f"/generate/takes/{take.name}/given/../../../../etc/hostname",
        f"/generate/takes/{take.name}/%2Fetc%2Fhostname",
        f"/generate/takes/{take.name}/link.wav",
        "/generate/takes/..%2F..%2Fxps/x.wav",
        f"/generate/takes/{take.name}/picture.png?file=../../../audio/0.wav",
    ):
        assert asker.client.get(address).status_code == 404, address


def test_a_wish_of_another_page_is_refused(asker: Asker) -> None:
    answer = asker.client.post("/generate", data={"model": CODES}, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    assert not asker.folder.exists()


def test_words_are_shown_as_text(make_client: Any, asker: Asker) -> None:
    assert isinstance(asker.client, TestClient)
    take = asker.ask(model=LATENTS, text="<script>alert(1)</script>", seconds="0.05")
    page = asker.client.get("/generate").text
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
    assert next(take.glob("*.wav")).name == "script-alert-1-script-000.wav"
