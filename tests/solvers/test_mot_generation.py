"""Clips from captions: learnt by heart they come back, drawn they are codes, asked for they are what was asked for."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from solfa.codecs.protocol import Encoded
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.model import load_model
from solfa.generate.request import ClipRequest
from solfa.generate.text_model import TextModel
from solfa.solvers.tasks.mot import MoTSolver
from solfa.solvers.watchers.protocol import Watcher
from tests.models.mot.tiny_mot import LAYOUTS, name_of, shake
from tests.solvers.best_weights import load_best
from tests.solvers.mot_runs import (
    RATE,
    K,
    PreciseMoT,
    V,
    World,
    ask,
    codes_of,
    make_world,
    mot_values,
    solver_of,
    store_captioned,
    train_briefly,
)

GREEDY = {"temperature": 0.0, "guidance_scale": 1.0}
EVERY_CODE = {"top_k": 0, "temperature": 5.0}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def trained(world: World, tmp_path_factory: pytest.TempPathFactory) -> MoTSolver:
    return train_briefly(tmp_path_factory.mktemp("trained"), world)


@pytest.mark.parametrize(
    "layout", [LAYOUTS[0], *(pytest.param(layout, marks=pytest.mark.slow) for layout in LAYOUTS[1:])], ids=name_of
)
def test_four_clips_are_learnt_by_heart_and_come_back_from_their_captions(
    world: World, tmp_path: Path, layout: dict[str, Any]
) -> None:
    captions = ("a harp", "a drum", "birds", "rain on a tin roof")
    clips = [(text, np.random.default_rng(len(text)).integers(0, V, (8, K))) for text in captions]
    data = str(store_captioned(tmp_path / "four.solfa", clips))
    learning = {"optim__epochs": 1, "optim__updates_per_epoch": 30, "optim__optimizer__lr": 0.02, "optim__ema": None}
    values = mot_values(world, dset={"train": data, "valid": data}, text__dropout=0.0, model__layout=layout, **learning)
    solver = solver_of(tmp_path / "xp", values)
    solver.run()
    assert solver.history[-1]["valid"]["loss"] < 0.1
    load_best(solver)
    found = ask(solver, *[ClipRequest(text, 8 / RATE, 0, text) for text in captions], **GREEDY)
    for (_, codes), regenerated in zip(clips, found, strict=True):
        assert regenerated.tolist() == codes.tolist()


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
def test_whatever_is_drawn_is_a_code(world: World, tmp_path: Path, layout: dict[str, Any]) -> None:
    solver = solver_of(tmp_path, mot_values(world, model__layout=layout))
    shake(solver.network)
    requests = [ClipRequest(str(seed), 30 / RATE, seed, text) for seed, text in enumerate(["rising", "a", None, ""])]
    drawn = list(solver.generator().draw(requests, EVERY_CODE, lambda done, total: None))
    # The special token would be decoded to more than the loudest amplitude.
    assert all(clip.audio.shape == (K, 30) and clip.audio.abs().max() <= 1 for clip in drawn)
    for k in range(K):
        assert {code for clip in drawn for code in codes_of(solver, clip)[:, k].tolist()} == set(range(V))


def test_a_clip_depends_on_its_seed_text_and_guidance_and_not_on_its_neighbours(trained: MoTSolver) -> None:
    def asked(name: str, seed: int = 3, text: str | None = "rising") -> ClipRequest:
        return ClipRequest(name, 20 / RATE, seed, text)

    # In float64, so that one clip and four are rounded to the same codes.
    precise = solver_of(trained.experiment.folder, trained.cfg.model_dump(mode="json"), kind=PreciseMoT)
    load_best(precise)
    others = [asked("seed", seed=4), asked("text", text="ebbing from ten, and then rising"), asked("none", text=None)]
    together = ask(precise, asked("same"), *others, **EVERY_CODE)
    (alone,) = ask(precise, asked("same"), **EVERY_CODE)
    assert torch.equal(together[0], alone)
    assert len({tuple(codes.flatten().tolist()) for codes in together}) == 4
    unguided, silent = ask(precise, asked("same"), asked("none", text=None), **EVERY_CODE, guidance_scale=1.0)
    assert not torch.equal(unguided, alone)
    assert torch.equal(silent, together[3]), "without a text there is nothing to guide by"


def test_a_prompt_is_kept_and_gone_on_from(trained: MoTSolver, tmp_path: Path) -> None:
    codes = torch.from_numpy(np.random.default_rng(1).integers(0, V, (9, K)))
    audio = trained.generator().codec.decode(Encoded(codes[None], 9))[0]
    soundfile.write(tmp_path / "riff.wav", audio.T.numpy(), RATE, subtype="FLOAT")
    afresh = ClipRequest("afresh", 20 / RATE, 0, "rising")
    begun = ClipRequest("begun", 20 / RATE, 0, "rising", prompt=tmp_path / "riff.wav", prompt_seconds=7 / RATE)
    found, other = ask(trained, begun, afresh, **EVERY_CODE)
    assert found.shape == (20, K) and torch.equal(found[:7], codes[:7])
    assert not torch.equal(found[7:], other[7:])


class Listener(Watcher):
    def __init__(self) -> None:
        self.heard: list[GeneratedClip] = []

    def clips(self, stage: str, epoch: int, clips: Sequence[GeneratedClip]) -> None:
        self.heard += clips


def test_generate_stage_takes_texts_and_beginnings_from_the_data(world: World, tmp_path: Path) -> None:
    listener = Listener()
    stage = {"every": 2, "num_clips": 2, "seconds": 12 / RATE, "prompt_seconds": 5 / RATE}
    solver = solver_of(tmp_path, mot_values(world, generate=stage, text__source="mood"), listener)
    solver.run()
    assert len(listener.heard) == 2
    for index, clip in enumerate(listener.heard):
        stored = solver.sources["generate"][index]
        assert clip.metadata["conditions"] == {"text": stored.metadata["mood"]}
        assert clip.audio.shape == (K, 12)
        assert codes_of(solver, clip)[:5].tolist() == stored.array[:5].tolist()


def test_a_trained_experiment_opens_without_its_data_and_generates_the_same(trained: MoTSolver, tmp_path: Path) -> None:
    folder = shutil.copytree(trained.experiment.folder, tmp_path / "1abe1000")
    settings = trained.cfg.model_dump(mode="json")
    settings["dset"]["train"] = [str(tmp_path / "gone.solfa")]
    (folder / "config.json").write_text(json.dumps(settings))
    opened = load_model(folder).generator
    assert isinstance(opened, TextModel)
    request = ClipRequest("clip", 20 / RATE, 5, "rising")
    assert torch.equal(ask(opened, request)[0], ask(trained, request)[0])


def test_what_cannot_be_generated_gets_a_sentence(trained: MoTSolver) -> None:
    labelled = ClipRequest("x", 10 / RATE, 0, conditions={"txt": "rising"})
    with pytest.raises(ConfigError, match=r"`conditions`: .*'txt'.*did you mean 'text'"):
        ask(trained, labelled)
    with pytest.raises(ConfigError, match=r"`top_q`: .*did you mean 'top_"):
        ask(trained, ClipRequest("x", 10 / RATE, 0), top_q=3)
