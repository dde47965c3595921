"""`solfa.evaluate` from folders, datasets and clips to a report: the same numbers, however it was computed."""

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import solfa
from solfa.errors import ConfigError, SolfaError
from solfa.evaluate import load_embedder
from solfa.evaluate.clip_sets import evaluation_cache, open_place, pair_key
from solfa.evaluate.embedding_cache import Crew, embed
from solfa.ui.html.evaluation_page import render_evaluation
from tests.codecs.embedders.test_embedders import make_clap
from tests.evaluate.sounds import RATE, clips, with_noise, write_melodies
from tests.trees import tree_digest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    return evaluation_cache()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_melodies(tmp_path_factory.mktemp("real"), range(6))


def test_folders_are_judged_and_what_was_embedded_is_not_embedded_again(real, cache, tmp_path):
    made = write_melodies(tmp_path / "made", range(50, 56))
    (made / "broken.wav").write_bytes(b"RIFF nothing")
    worse = write_melodies(tmp_path / "worse", range(50, 56), with_noise(0.1))
    report = solfa.evaluate(made, reference=real, embedder="mel", against=worse)
    assert [measure.name for measure in report.measures] == ["kad", "si_sdr", "mel"]
    kad = report["kad"]
    assert (kad.num_recordings, kad.num_reference) == (6, 6) and kad.floor < 10 < kad.ceiling
    assert [d.verdict for d in report.differences if d.name == "kad"] == ["better"] and report.against == str(worse)
    assert [fallen.id for fallen in report.fell_out] == ["broken.wav"]
    assert [clip.pair for clip in report.clips] == [f"{index:02d}.wav" for index in range(6)]
    before = tree_digest(cache)
    again = solfa.evaluate(made, reference=real, embedder="mel", against=worse)
    assert tree_digest(cache) == before and again.as_dict() == report.as_dict()
    with pytest.raises(KeyError, match="not measured"):
        report["fad"]


def test_a_file_that_changed_is_heard_again(real, tmp_path):
    made = write_melodies(tmp_path / "made", range(50, 54))
    first = solfa.evaluate(made, reference=real, embedder="mel", metrics=["kad"])
    write_melodies(made, range(50, 54), with_noise(0.1))
    assert solfa.evaluate(made, reference=real, embedder="mel", metrics=["kad"])["kad"].value > first["kad"].value + 10


def test_a_dataset_is_decoded_and_compared_with_its_originals(real, tmp_path):
    fine, coarse = (tmp_path / f"{bits}.solfa" for bits in (12, 5))
    for dest, bits in ((fine, 12), (coarse, 5)):
        solfa.encode(real, dest, codec=solfa.load_codec("mulaw", bits=bits), segment_seconds=1.0)
    told: list[tuple[str, int, int]] = []
    settings = {"embedder": "mel", "metrics": ["si_sdr", "mel"], "against": coarse}
    report = solfa.evaluate(solfa.open_dataset(fine), real, **settings, on_clip=lambda *part: told.append(part))
    for what in ("comparing copies", "comparing originals and noise"):
        assert [part[1:] for part in told if part[0] == what] == [(done, 6) for done in (*range(7), *range(7))]
    assert report["si_sdr"].value > 30 and report["si_sdr"].num_recordings == 6
    assert {difference.verdict for difference in report.differences} == {"better"} and report.ranked_by == "mel"
    mel, si_sdr = report["mel"], report["si_sdr"]
    assert 0 == mel.floor < mel.value < mel.ceiling and si_sdr.ceiling < 0 < si_sdr.value < si_sdr.floor


def test_embeddings_are_a_dataset_and_can_be_the_reference(real, tmp_path):
    embedder = load_embedder("mel")
    solfa.encode(
        real, tmp_path / "real.solfa", codec=solfa.load_codec("embedder:model=mel"), dtype="float32", segment_seconds=0
    )
    given = clips(range(50, 55))
    one, other = (
        solfa.evaluate(given, reference=place, embedder=embedder) for place in (tmp_path / "real.solfa", real)
    )
    assert one["kad"].value == other["kad"].value and one["kad"].interval == other["kad"].interval
    solfa.encode(real, tmp_path / "codes.solfa", codec=solfa.load_codec("mulaw"))
    with pytest.raises(ConfigError, match="at least 2"):
        solfa.evaluate(given[:1], reference=tmp_path / "codes.solfa", embedder=embedder)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"metrics": ["kat"]}, "kad"),
        ({"metrics": []}, "at least one"),
        ({"metrics": ["kld"]}, "tagger"),
        ({"metrics": ["clap"]}, "CLAP"),
        ({"metrics": ["bits"]}, "model"),
        ({"embedder": "nothing"}, "embedder"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(real, settings, words):
    with pytest.raises(ConfigError, match=words):
        solfa.evaluate(real, reference=real, **{"embedder": "mel", **settings})


def test_a_folder_that_is_not_there_is_one_sentence(real):
    with pytest.raises(ConfigError, match=r"no folder.*nowhere"):
        solfa.evaluate("nowhere", reference=real, embedder="mel")


def test_clap_hears_whether_clips_agree_with_their_captions(real, tmp_path):
    """The mean cosine between clips and captions, taken by hand; the captions are files beside the clips."""
    torch.manual_seed(0)
    embedder = load_embedder(make_clap(tmp_path / "clap"))
    made = write_melodies(tmp_path / "made", range(50, 53))
    captions = ["a piano", "drum", "piano piano"]
    for index, caption in enumerate(captions):
        (made / f"{index:02d}.txt").write_text(caption)
    found = solfa.evaluate(made, reference=real, embedder=embedder, metrics=["clap"])["clap"]
    heard = embed(open_place(made), embedder, Crew(), embedder)
    sounds = heard.of_recordings(heard.frames)
    sounds /= np.linalg.norm(sounds, axis=1, keepdims=True)
    expected = (sounds * embedder.embed_texts(captions).double().numpy()).sum(axis=1).mean()
    assert found.value == pytest.approx(expected, abs=1e-6) and found.num_recordings == 3


def test_names_are_paired_without_their_extensions():
    assert pair_key("a/b.flac") == pair_key("a/b.flac.wav") == pair_key("a/b") == "a/b"
    assert pair_key("v1.5 mix.mp3") == "v1.5 mix"


@pytest.mark.slow
def test_speech_measures_come_from_their_packages(real, tmp_path):
    if find_spec("pesq") is None or find_spec("pystoi") is None:
        with pytest.raises(ConfigError, match=r"solfa\[eval\]"):
            solfa.evaluate(real, reference=real, embedder="mel", metrics=["pesq", "stoi"])
        return
    noisy = write_melodies(tmp_path / "noisy", range(6), with_noise(0.05))
    found = solfa.evaluate(real, reference=real, embedder="mel", metrics=["pesq", "stoi"], against=noisy)
    assert found["pesq"].value > 4 and found["stoi"].value > 0.99
    for measure in (found["pesq"], found["stoi"]):
        assert measure.value == pytest.approx(measure.floor) and measure.value > measure.ceiling
    assert {difference.verdict for difference in found.differences} == {"better"}


def test_the_page_shows_hostile_names_as_text_and_every_measure(real, tmp_path):
    made = write_melodies(tmp_path / "made", range(50, 53), lambda sound: np.clip(20 * sound, -1, 1))
    (made / "00.wav").rename(made / "<script>x.wav")
    report = solfa.evaluate(made, reference=real, embedder="mel", metrics=["kad", "mel"])
    assert report.faults["clipping"] == 3 and json.dumps(report.as_dict(), allow_nan=False)
    page = render_evaluation(report, lambda key: (clips(range(1))[0].samples(), RATE))
    assert "<script" not in page and "&lt;script&gt;x.wav" in page
    assert page.count("<svg") >= 1 and page.count("<audio") == len(report.ranked()) and "KAD" in page
    assert "two halves of the reference" in page and "For copies (Mel distance), real is what an original gets" in page
    only = replace(report, measures=(report["mel"],))
    assert "halves" not in render_evaluation(only, None)


@pytest.mark.slow
def test_other_processes_and_a_kill_give_the_same_embeddings(real, tmp_path, monkeypatch):
    """What is measured is a pure function of these and of the seed."""
    mel = load_embedder("mel")

    def embeddings(name: str, **crew: int) -> list[object]:
        monkeypatch.setenv("SOLFA_CACHE_DIR", str(tmp_path / name))
        found = embed(open_place(real), "mel", Crew(**crew), mel)
        return [found.ids, found.owners.tolist(), found.frames.tobytes()]

    here = embeddings("here")
    monkeypatch.setenv("SOLFA_CRASH_AT", "shard:before-commit")
    with pytest.raises(SolfaError, match="encoder process"):
        embeddings("killed", num_encoders=1)
    monkeypatch.delenv("SOLFA_CRASH_AT")
    assert embeddings("killed", num_encoders=2, num_workers=1) == here
