"""Compare: blind, in an order that follows from a seed, answers on the disk, and preferences with their interval."""

import html
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from starlette.testclient import TestClient

from solfa.studio.compare.answers_file import AnswersFile
from solfa.studio.compare.clip_sides import low_pass
from solfa.studio.compare.listening_test import preference
from solfa.studio.compare.trials import plan_trials

HERE = {"origin": "http://127.0.0.1:8100"}
RATE = 16_000


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Two sides and a reference with the same names; each side has its own level, and one clip that nobody else has."""
    made = {}
    for side, level in (("secret_left", 0.1), ("secret_right", 0.2), ("secret_goal", 0.4)):
        made[side] = tmp_path / side
        for name in ("drums/kick.wav", "voice.flac", f"only_{side}.wav"):
            path = made[side] / name
            path.parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(path, np.full(RATE // 20, level), RATE)
    return made


def begin(client: TestClient, **typed: Any) -> Any:
    return client.post("/compare", data=typed, headers=HERE, follow_redirects=False)


def level(client: TestClient, address: str) -> float:
    audio, _ = soundfile.read(io.BytesIO(client.get(address).content))
    return round(float(audio[len(audio) // 2]), 2)


def test_a_pair_is_heard_in_a_random_order_and_what_was_chosen_is_noted(
    make_client: Callable[..., TestClient], folders: dict[str, Path], tmp_path: Path
) -> None:
    client = make_client()
    left, right = folders["secret_left"], folders["secret_right"]
    orders = set()
    for seed in range(6):
        place = begin(client, a=left, b=right, seed=seed, listener="Ada").headers["location"]
        for number in range(2):
            page = client.get(place).text
            assert "secret" not in page
            assert "only_" not in page
            heard = [level(client, f"{place}/{number}/{at}.flac") for at in (1, 2)]
            assert sorted(heard) == [0.1, 0.2]
            orders.add(tuple(heard))
            louder = 1 + heard.index(0.2)
            client.post(place, data={"trial": number, "chosen": str(louder)}, headers=HERE)
        assert client.get(place).url.path.endswith("/results")
    assert len(orders) == 2
    answers = list(AnswersFile(tmp_path / "runs/studio/compared/answers.jsonl"))
    assert len(answers) == 12
    assert {answer["preferred"] for answer in answers} == {"b"}  # the louder is the right one, wherever it was
    assert {answer["clip"] for answer in answers} == {"drums/kick", "voice"}
    assert {answer["order"][0] for answer in answers} == {"a", "b"}
    assert [answer["seed"] for answer in answers] == [seed for seed in range(6) for _ in range(2)]
    results = html.unescape(client.get(f"{place}/results").text)
    assert "0 of 2" in results and "0 of 12" in results and str(right) in results
    assert "0 to 84 %" in results and "0 to 26 %" in results  # exactly 84.19 % and 26.46 %


def test_ratings_hide_the_reference_and_an_anchor_among_the_sides(
    make_client: Callable[..., TestClient], folders: dict[str, Path], tmp_path: Path
) -> None:
    client = make_client()
    sides = {"a": folders["secret_left"], "b": folders["secret_right"], "reference": folders["secret_goal"]}
    place = begin(client, **sides, kind="rating", seed=3, num=1).headers["location"]
    assert "secret" not in client.get(place).text
    heard = {at: level(client, f"{place}/0/{at}.flac") for at in (1, 2, 3, 4)}
    assert sorted(heard.values()) == [0.1, 0.2, 0.4, 0.4]
    assert level(client, f"{place}/0/reference.flac") == 0.4
    told = {f"rating{at}": round(100 * value) for at, value in heard.items()}
    client.post(place, data={"trial": 0, **told}, headers=HERE)
    (answer,) = AnswersFile(tmp_path / "runs/studio/compared/answers.jsonl")
    assert answer["ratings"] == {"a": 10, "b": 20, "reference": 40, "anchor": 40}
    assert preference([answer]) == (0, 1, 0)


def test_answers_are_taken_once_and_a_restart_goes_on(
    make_client: Callable[..., TestClient], folders: dict[str, Path], tmp_path: Path
) -> None:
    place = begin(make_client(), a=folders["secret_left"], b=folders["secret_right"]).headers["location"]
    for _ in range(2):  # clicked twice
        make_client().post(place, data={"trial": 0, "chosen": "none"}, headers=HERE)
    path = tmp_path / "runs/studio/compared/answers.jsonl"
    assert len(path.read_text().splitlines()) == 1
    with path.open("a") as file:
        file.write('{"test": "ki')  # killed while it wrote
    again = make_client()
    assert "Trial 2 of 2" in again.get(place).text
    again.post(place, data={"trial": 1, "chosen": "1"}, headers=HERE)
    assert [answer["trial"] for answer in AnswersFile(path)] == [0, 1]
    assert "No preference in 1 trial" in again.get(f"{place}/results").text


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"a": ""}, ["a:", "expected"]),
        ({"b": "nowhere"}, ["b:", "nowhere"]),
        ({"b": "/no/such/folder"}, ["b:", "/no/such/folder"]),
        ({"num": "many"}, ["trials", "many"]),
        ({"seed": "-1"}, ["seed"]),
        ({"kind": "rating"}, ["reference"]),
        ({"b": "EMPTY"}, ["same names"]),
        ({"b": "A"}, ["different"]),
    ],
)
def test_what_is_wrong_is_one_sentence(
    make_client: Callable[..., TestClient],
    folders: dict[str, Path],
    tmp_path: Path,
    typed: dict[str, str],
    words: list[str],
) -> None:
    (tmp_path / "empty").mkdir()
    places = {"EMPTY": str(tmp_path / "empty"), "A": str(folders["secret_left"])}
    told = {"a": str(folders["secret_left"]), "b": str(folders["secret_right"]), **typed}
    answer = begin(make_client(), **{name: places.get(value, value) for name, value in told.items()})
    assert answer.status_code == 400
    (sentence,) = re.findall(r'role="alert">(.*?)</p>', answer.text)
    assert all(word in html.unescape(sentence) for word in words), sentence


def test_datasets_and_runs_are_sides_too(
    make_client: Callable[..., TestClient], small_dataset: Path, small_audio: Path, tmp_path: Path
) -> None:
    client = make_client(small_dataset, sources=[small_audio])
    samples = tmp_path / "runs/xps/ab12cd34/samples"
    names = [path.relative_to(small_audio) for path in sorted(small_audio.rglob("*.wav"))]
    for epoch in (2, 10):
        for name in names:
            (samples / str(epoch) / name).parent.mkdir(parents=True, exist_ok=True)
            soundfile.write(samples / str(epoch) / name, np.full(800, epoch / 100), RATE)
    (samples.parent / "config.json").write_text("{}")
    place = begin(client, a="small.solfa", b="ab12", reference="small.solfa (originals)", seed=1).headers["location"]
    order = json.loads((tmp_path / f"runs/studio/compared/{place.rpartition('/')[2]}/test.json").read_text())["plan"]
    trial = plan_trials(order["names"], "pair", 1, 12)[0]
    heard = f"{place}/0/{1 + trial.order.index('b')}.flac"
    assert level(client, heard) == 0.1  # of the latest epoch
    for at in (1, 2, "reference"):
        assert client.get(f"{place}/0/{at}.flac").status_code == 200
    for missing in ("0/3", "0/x", "99/1"):
        assert client.get(f"{place}/{missing}.flac").status_code == 404
    assert begin(client, a="small.solfa", b="ab12@3").status_code == 400


def test_the_anchor_has_nothing_above_its_frequency() -> None:
    time = np.arange(RATE) / RATE
    low, high = np.sin(2 * np.pi * 1000 * time), np.sin(2 * np.pi * 5000 * time)
    # Whole periods: both tones are single lines of the spectrum, so one stays exactly and the other goes.
    assert np.allclose(low_pass((low + high)[None], RATE, 3500), low[None], atol=1e-6)
