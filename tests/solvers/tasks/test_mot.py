"""Audio experts on a frozen text model: what the loss is, what captions do, what is kept and what cannot change."""

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoTokenizer

from solfa.codecs.catalogue import load_codec
from solfa.config import parse_config
from solfa.data.batching.collation import Batch
from solfa.encoding.fingerprint import array_spec
from solfa.environment.allocator import worker_environment
from solfa.errors import ConfigError, SolfaError
from solfa.models.mot.assembly import load_donor
from solfa.models.mot.joint import text_then_audio
from solfa.models.mot.network import MoT
from solfa.models.mot.prefix import TextPrefix
from solfa.models.mot.text_base import load_base
from solfa.models.mot.texts import Text, Texts
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.tasks.mot import MoTSolver
from solfa.store.schema import ArraySpec
from solfa.xp.state_file import read_state
from tests.codecs import tiny
from tests.models.mot.tiny_mot import LAYOUTS, name_of, shake, their_model
from tests.solvers.best_weights import load_best
from tests.solvers.conftest import check_resume
from tests.solvers.mot_driver import DOUBLE, GENERATED, SETTINGS
from tests.solvers.mot_runs import (
    RATE,
    K,
    V,
    World,
    losses_of,
    make_base,
    make_world,
    mot_values,
    scales,
    solver_of,
    store_captioned,
    train_briefly,
    without_captions,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def trained(world: World, tmp_path_factory: pytest.TempPathFactory) -> MoTSolver:
    return train_briefly(tmp_path_factory.mktemp("trained"), world)


def nats_one_by_one(model: MoT, ids: Sequence[int], codes: Tensor) -> list[list[float]]:
    """Give the nats of each code of each codebook, from a text and the codes [K, T] laid out before it, alone."""
    layout = model.config.layout.layout(*codes.shape)
    known = torch.full((1, K, layout.shape[1] + 1), V)
    nats: list[list[float]] = [[] for _ in range(K)]
    for step in range(layout.shape[1]):
        sequence = text_then_audio(torch.tensor([ids]), torch.tensor([len(ids)]), known[:, :, : step + 1])
        with torch.no_grad():
            log_probs = model.logits(model.forward_joint(sequence).audio[:, -1:])[0, :, 0].log_softmax(-1)
        for k in range(K):
            if layout[k, step] >= 0:
                known[0, k, step + 1] = code = codes[k, layout[k, step]]
                nats[k].append(-float(log_probs[k, code]))
    return nats


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
def test_validation_loss_is_the_mean_nats_of_every_code_given_the_caption_and_the_codes_before_it(
    world: World, tmp_path: Path, layout: dict[str, Any]
) -> None:
    # Captions and clips of different lengths in one batch: padding must neither count nor be seen.
    rng = np.random.default_rng(0)
    lengths = {"low": 2, None: 4, "a harp that is plucked": 5, "ah": 3}
    clips = [(text, rng.integers(0, V, (num_frames, K))) for text, num_frames in lengths.items()]
    data = str(store_captioned(tmp_path / "d.solfa", clips))
    whole = {"segment_seconds": None, "batch_size": 4, "mode": {"kind": "pad"}}
    values = mot_values(world, dset={"train": data, "valid": data}, dataset=whole, model__layout=layout)
    solver = solver_of(tmp_path / "xp", values)
    shake(solver.network)
    found = solver.run_stage("valid")
    read = AutoTokenizer.from_pretrained(world.base)
    nats: list[list[float]] = [[] for _ in range(K)]
    for text, codes in clips:
        for k, each in enumerate(nats_one_by_one(solver.network, read(text or "")["input_ids"], torch.tensor(codes).T)):
            nats[k] += each
    assert [len(each) for each in nats] == [sum(lengths.values())] * K
    assert [found["ce_q1"], found["ce_q2"]] == pytest.approx([np.mean(each) for each in nats], rel=1e-5)
    assert found["loss"] == pytest.approx(np.mean(nats), rel=1e-5)
    assert found["ppl"] == pytest.approx(math.exp(found["loss"]))


@pytest.mark.slow
@pytest.mark.learning
def test_it_learns_what_captions_say_and_is_blind_without_them(world: World, tmp_path: Path) -> None:
    # Two frames of eight kinds of clips: four codes, of which the caption says all and nothing else says the first.
    others = store_captioned(tmp_path / "others.solfa", scales(8))
    common = {
        "dset": {"train": str(world.songs), "valid": str(others)},
        "dataset": {"segment_seconds": 2 / RATE, "batch_size": 8, "train": {"random_start": False}},
        "optim__epochs": 1,
        "optim__updates_per_epoch": 30,
        "optim__optimizer__lr": 0.02,
    }
    losses = {}
    for dropout in (0.1, 1.0):
        solver = solver_of(tmp_path / str(dropout), mot_values(world, text__dropout=dropout, **common))
        solver.run()
        losses[dropout] = solver.history[-1]["valid"]["loss"]
    blind = math.log(8) / 4
    assert losses[1.0] > 0.9 * blind
    assert losses[0.1] < 0.2 * blind


class Remembering(Texts):
    """Notes the texts of every batch."""

    def __init__(self, texts: Texts) -> None:
        super().__init__(texts.config, texts.base)
        self.told: list[Text] = []

    def prefix(self, texts: Sequence[Text], *, guided: bool = False) -> TextPrefix:
        self.told += texts
        return super().prefix(texts, guided=guided)


class Listening(MoTSolver):
    """Notes which text stood before which clip in which epoch of the data."""

    def build_model(self) -> None:
        super().build_model()
        self.texts = self.remembering = Remembering(self.texts)
        self.heard: dict[tuple[str, int], Text] = {}

    def run_step(self, idx: int, batch: Batch, metrics: Metrics) -> Metrics:
        told = self.remembering.told = []
        metrics = super().run_step(idx, batch, metrics)
        assert all(text in (caption, None) for text, caption in zip(told, batch.captions, strict=True))
        self.heard |= dict(zip([(clip_id, batch.epoch) for clip_id in batch.ids], told, strict=True))
        return metrics


def test_a_caption_is_dropped_by_the_clip_the_epoch_and_the_seed_whatever_it_is_read_with(
    world: World, tmp_path: Path
) -> None:
    def heard(folder: str, batch_size: int, updates: int, seed: int = 0) -> dict[tuple[str, int], bool]:
        sizes = {"dataset__batch_size": batch_size, "optim__updates_per_epoch": updates}
        values = mot_values(world, text__dropout=0.5, seed=seed, **sizes)
        solver = solver_of(tmp_path / folder, values, kind=Listening)
        assert isinstance(solver, Listening)
        solver.run_stage("train")
        found = {place: text is not None for place, text in solver.heard.items()}
        solver.heard.clear()
        solver.run_stage("valid")
        assert len(solver.heard) == 4 and None not in solver.heard.values(), "it is judged with all captions"
        return found

    # Twelve clips, twice.
    once = heard("a", batch_size=6, updates=4)
    assert len(once) == 24 and 4 < sum(once.values()) < 20
    assert heard("b", batch_size=4, updates=6) == once
    epochs = sorted({epoch for _, epoch in once})
    first, second = ({clip: there for (clip, at), there in once.items() if at == epoch} for epoch in epochs)
    assert first.keys() == second.keys() and first != second
    other = heard("c", batch_size=6, updates=2, seed=1)
    assert other.keys() < once.keys() and any(other[place] != once[place] for place in other)


def test_a_model_without_texts_is_trained_and_judged_as_if_there_were_none(world: World, tmp_path: Path) -> None:
    silent = store_captioned(tmp_path / "silent.solfa", without_captions(scales()))
    # All clips at once: the order in which they come depends on the dataset.
    changes = {"text__dropout": 1.0, "dataset__batch_size": 12, "optim__updates_per_epoch": 2}
    for name, songs in {"captioned": world.songs, "silent": silent}.items():
        solver_of(tmp_path / name, mot_values(world._replace(songs=songs), **changes)).run()
    assert losses_of(tmp_path / "captioned") == pytest.approx(losses_of(tmp_path / "silent"), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("cache", "stop"), [("memory", 5), ("folder", 2)])
def test_an_interrupted_run_equals_an_unbroken_one_wherever_captions_are_kept(
    world: World, tmp_path: Path, cache: str, stop: int
) -> None:
    where = str(tmp_path / "cache") if cache == "folder" else cache
    # Of this donor the feed-forward layers, tables and heads are frozen, so the checkpoint is without them.
    values = mot_values(world, text__cache=where, model__donor=str(world.donor), checkpoint__minutes=1e-9)
    check_resume(tmp_path, lambda folder, watcher: solver_of(folder, values, watcher), stop)
    assert (cache == "folder") == any((tmp_path / "cache").rglob("*.safetensors"))


@pytest.mark.parametrize(
    "begins", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["with a first token", "without one"]
)
def test_keeping_the_graph_of_the_texts_gives_the_same_losses(world: World, tmp_path: Path, begins: bool) -> None:
    base = world.base
    if not begins:
        # An absent text then has no tokens at all.
        base = shutil.copytree(base, tmp_path / "llama")
        tokenizer = json.loads((base / "tokenizer.json").read_text())
        (base / "tokenizer.json").write_text(json.dumps({**tokenizer, "post_processor": None}))
    for graph in (False, True):
        values = mot_values(world._replace(base=base), model__prefix_graph=graph, text__dropout=0.5)
        solver = solver_of(tmp_path / str(graph), values)
        assert bool(solver.texts.tokenize(None)) == begins
        solver.run()
    assert losses_of(tmp_path / "True") == pytest.approx(losses_of(tmp_path / "False"), rel=1e-5)


def test_ten_updates_change_every_weight_that_is_trained_and_no_bit_of_base_and_donor(
    trained: MoTSolver, world: World, tmp_path: Path
) -> None:
    assert [epoch["train"]["grad_norm"] > 0 for epoch in trained.history] == [True, True]
    theirs, ours = their_model(world.base).state_dict(), trained.network.base.model.state_dict()
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)
    before = dict(solver_of(tmp_path, trained.cfg.model_dump(mode="json")).network.named_parameters())
    for name, parameter in trained.network.named_parameters():
        assert torch.equal(parameter, before[name]) != parameter.requires_grad, name
    frozen = {name for name, parameter in before.items() if not parameter.requires_grad}
    assert {"vocabulary.heads", "layers.0.ffn.fc1.weight", "layers.1.ffn.norm.bias"} <= frozen


def test_the_text_side_answers_exactly_as_the_base(trained: MoTSolver, world: World) -> None:
    question = "Who plays the harp?"
    untouched, tuned = load_base(str(world.base)), trained.network.base
    ids = torch.tensor([untouched.tokenize(question, 99)])
    with torch.no_grad():
        assert torch.equal(tuned.logits(ids), their_model(world.base)(ids).logits)
    assert tuned.answer(question, 12) == untouched.answer(question, 12) != ""


def test_a_lower_precision_of_the_run_is_not_that_of_the_base(world: World, tmp_path: Path) -> None:
    network = solver_of(tmp_path, mot_values(world, precision="bf16-true")).network
    assert {parameter.dtype for parameter in network.parameters()} == {torch.bfloat16}
    theirs, ours = their_model(world.base), network.base.model
    assert all(torch.equal(theirs.state_dict()[name], value) for name, value in ours.state_dict().items())
    assert torch.equal(theirs.model.rotary_emb.inv_freq, ours.model.rotary_emb.inv_freq)


def test_checkpoints_hold_what_is_trained_alone_and_name_base_and_donor(trained: MoTSolver, world: World) -> None:
    folder = trained.experiment.folder
    wanted = {name for name, parameter in trained.network.named_parameters() if parameter.requires_grad}
    hashes = {"base": load_base(str(world.base)).fingerprint, "donor": load_donor(str(world.donor)).fingerprint}
    for name in ("best.pt", "checkpoint.pt"):
        state = read_state(folder / name)["states"]["model"]
        assert set(state) == {*wanted, "_extra_state"}
        assert state["_extra_state"] == hashes
    assert len(read_state(folder / "checkpoint.pt")["states"]["optimizer"]["state"]) == len(wanted)
    assert 10 * (folder / "best.pt").stat().st_size < (world.base / "model.safetensors").stat().st_size


def test_weights_are_refused_beside_another_base_or_a_changed_donor(
    trained: MoTSolver, world: World, tmp_path: Path
) -> None:
    donor = shutil.copytree(world.donor, tmp_path / "musicgen")
    weights = load_file(donor / "model.safetensors")
    weights["lm_heads.0.weight"][0, 0] += 1
    save_file(weights, donor / "model.safetensors", {"format": "pt"})
    changes = {
        "base": world._replace(base=make_base(tmp_path / "llama", scale=1.1)),
        "donor": world._replace(donor=donor),
    }
    for part, other in changes.items():
        folder = shutil.copytree(trained.experiment.folder, tmp_path / part)
        solver = solver_of(folder, mot_values(other, model__donor=str(other.donor)))
        for opened in (solver.run, partial(load_best, solver)):
            with pytest.raises(
                ConfigError,
                match=rf"^model\.{part}: .*{part} [0-9a-f]{{12}}, found [0-9a-f]{{12}}; .*checkpoint",
            ):
                opened()


def test_a_weight_that_is_not_a_number_stops_the_run_with_the_clips(world: World, tmp_path: Path) -> None:
    solver = solver_of(tmp_path, mot_values(world))
    with torch.no_grad():
        solver.network.layers[1].post_norm.weight[3] = torch.nan
    with pytest.raises(SolfaError, match=r"finite loss, found nan.*clips '\d+.wav', "):
        solver.run()
    assert not (tmp_path / "checkpoint.pt").exists()


@pytest.mark.parametrize(
    ("layout", "tokens", "num_frames"), [("flat", 7, 3), ("delay", 6, 5), ("parallel", 4, 4), ("delay", 992, 8)]
)
def test_limits_in_tokens_shorten_the_clips(
    world: World, tmp_path: Path, layout: str, tokens: int, num_frames: int
) -> None:
    changes = {"model__layout": {"kind": layout}, "max_audio_tokens": tokens}
    solver = solver_of(tmp_path, mot_values(world, **changes))
    for stage in ("train", "valid"):
        assert next(iter(solver.dataloaders[stage])).arrays.shape[1] == num_frames
    cfg = solver_of(tmp_path / "whole", mot_values(world, **changes, max_sequence_length=tokens + 3)).cfg
    assert cfg.text.max_tokens == 3 and parse_config(type(cfg), cfg.model_dump(mode="json"), "again") == cfg


def test_the_audio_gets_what_the_text_leaves_of_a_sequence(world: World, tmp_path: Path) -> None:
    changes = {"model__layout": {"kind": "flat"}, "max_sequence_length": 16, "text__max_tokens": 10}
    solver = solver_of(tmp_path, mot_values(world, **changes))
    assert next(iter(solver.dataloaders["train"])).arrays.shape[1] == 3


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"max_sequence_length": 9, "max_audio_tokens": 9}, "max_audio_tokens: .*fewer than .*9"),
        ({"max_sequence_length": 512}, r"max_sequence_length: .*more than text\.max_tokens \(512\)"),
        ({"max_audio_tokens": 1}, "max_audio_tokens: 1 .*one frame of 2 codebooks"),
        ({"max_audio_tokens": 9, "dataset": {"batch_size": 4, "mode": {"kind": "pad"}}}, r"dataset\.mode: .*crop"),
    ],
)
def test_limits_that_cannot_be_kept_are_refused(
    world: World, tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        solver_of(tmp_path, mot_values(world, **changes))


def test_data_that_cannot_work_gets_a_sentence(world: World, tmp_path: Path) -> None:
    silent = store_captioned(tmp_path / "silent.solfa", without_captions(scales()))
    with pytest.raises(ConfigError, match=r"^text.source: .*caption.*text\.dropout=1"):
        solver_of(tmp_path, mot_values(world._replace(songs=silent)))
    with pytest.raises(ConfigError, match=r"'mod', did you mean 'mood'"):
        solver_of(tmp_path, mot_values(world, text__source="mod"))
    with pytest.raises(ConfigError, match=r"^dataset\.mode: packed"):
        solver_of(tmp_path, mot_values(world, dataset__mode={"kind": "pack"}))
    array = ArraySpec(kind="latents", width=K, sample_rate=RATE, num_channels=1, hop_length=1, dtype="float32")
    latents = store_captioned(tmp_path / "latents.solfa", scales(), array)
    with pytest.raises(ConfigError, match=r"^dset: .*codes, found latents"):
        solver_of(tmp_path, mot_values(world._replace(songs=latents)))


def test_a_codec_that_cannot_decode_is_found_out_before_training(world: World, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"2 codebooks of 16, found 1 of 256; set codec"):
        solver_of(tmp_path, mot_values(world, codec="mulaw", generate={"every": 1}))
    # The loudness of generated codes is unknown to a codec that stores it beside them.
    spec = str(tiny.make_encodec(tmp_path / "codec", "48khz"))
    codec = load_codec(spec)
    loud = store_captioned(tmp_path / "d.solfa", scales(num_codebooks=codec.num_codebooks), array_spec(codec), spec)
    with pytest.raises(ConfigError, match=r"scales .*found none"):
        solver_of(tmp_path, mot_values(world._replace(songs=loud), generate={"every": 1}))


@pytest.mark.slow
def test_two_processes_and_low_precision_learn_what_one_process_learns(world: World, tmp_path: Path) -> None:
    # AdamW divides a gradient by its own size: where it is tiny, the rounding of another order of summation decides
    # its sign and moves a weight by all of the learning rate. Only float64 says whether two processes learn the same.
    kinds = {"together": DOUBLE, "alone": DOUBLE, "plain": "32-true", "mixed": "bf16-mixed", "low": "bf16-true"}
    folders = {name: tmp_path / name for name in kinds}
    for name, precision in kinds.items():
        folders[name].mkdir()
        (folders[name] / SETTINGS).write_text(json.dumps(mot_values(world, precision=precision)))
    environment = worker_environment({**os.environ, "PYTHONPATH": str(ROOT)}, one_thread=True, bf16=True)
    command = [sys.executable, "-m", "tests.solvers.mot_driver", *map(str, folders.values())]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    one, two = (read_state(folders[name] / "checkpoint.pt")["states"]["model"] for name in ("alone", "together"))
    # A gradient g is a sum of at most n = 4 * 8 * 2 codes, each at most 1, so it errs by n * 2^-53; an update moves by
    # at most lr / eps = 0.01 / 1e-8 times that, and six of them, which see each other's errors, stay below 1e-7.
    for name in one.keys() - {"_extra_state"}:
        torch.testing.assert_close(one[name], two[name], atol=1e-7, rtol=0)
    histories = [json.loads((folders[name] / "history.json").read_text()) for name in ("alone", "together")]
    # Nats are added up in float32: n additions of 2^-24 each; a perplexity of up to 3 nats errs three times as much.
    for ours, theirs in zip(*histories, strict=True):
        assert all(ours[stage] == pytest.approx(theirs[stage], rel=3 * 64 * 2**-24) for stage in ("train", "valid"))
    losses = {name: losses_of(folder) for name, folder in folders.items()}
    for name in ("plain", "mixed", "low"):
        assert losses[name] != losses["alone"]
        assert losses[name] == pytest.approx(losses["alone"], rel=0.02)
        assert np.shape(json.loads((folders[name] / GENERATED).read_text())) == (10, K)
