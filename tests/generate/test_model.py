"""A trained model is loaded without its trainer, generates what its solver does, and says how probable a clip is."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

import solfa
from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.quantized import WaveformCodec
from solfa.codecs.protocol import Encoded
from solfa.config import parse_config
from solfa.errors import AudioError, ConfigError, StoreError
from solfa.generate.export import export_model
from solfa.generate.model import Model, build_model, load_model
from solfa.generate.request import ClipRequest
from solfa.nn.linears.fbgemm import has_fbgemm
from solfa.nn.linears.packed import ForGeneration
from solfa.pretrained.tensors import TensorFiles
from solfa.solvers.experiment import Experiment
from solfa.solvers.tasks.lm import LMConfig, LMSolver
from solfa.solvers.tasks.sashimi import SashimiSolver, SashimiSolverConfig
from solfa.xp.state_file import read_state
from tests.conftest import write_tone
from tests.models.conditioners.tiny_encoders import write_t5
from tests.solvers.waveforms import sashimi_values, store_tones

RATE = 2000
GENRES = ("jazz", "folk", "jazz")


@pytest.fixture(scope="module")
def dora_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two experiments that were trained for a moment: a language model told a genre, and a model of waveforms."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("dora")
    for index, genre in enumerate(GENRES):
        write_tone(folder / f"audio/{index}.wav", 0.3, RATE, hz=100.0 + 70 * index)
        (folder / f"audio/{index}.json").write_text(json.dumps({"genre": genre, "licence": f"CC-{genre}"}))
    solfa.encode(folder / "audio", folder / "tones.solfa", codec=solfa.load_codec(f"mulaw:bits=4,sample_rate={RATE}"))
    run(LMSolver, LMConfig, folder / "xps/1abe1000", lm_values(folder / "tones.solfa"))
    data = store_tones(folder / "waves.solfa", WaveformCodec(MulawOptions(bits=6, sample_rate=1000)))
    run(SashimiSolver, SashimiSolverConfig, folder / "xps/5a541111", sashimi_values(data, optim__epochs=1))
    return folder


def lm_values(dataset: Path) -> dict[str, Any]:
    labels = {"kind": "labels", "source": "genre", "fuse": "sum"}
    return {
        "solver": "lm",
        "device": "cpu",
        "dset": {"train": str(dataset), "valid": str(dataset)},
        "dataset": {"segment_seconds": 0.02, "batch_size": 3},
        "model": {"dim": 16, "num_layers": 1, "num_heads": 2, "ffn_dim": 32},
        "conditioner": {"conditioners": {"genre": labels}, "guidance_dropout": 0.1},
        "optim": {"epochs": 2, "updates_per_epoch": 5, "optimizer": {"kind": "adamw", "lr": 0.02}},
        "logging": {"tensorboard": False},
    }


def run(solver: Any, config: Any, folder: Path, values: dict[str, Any]) -> None:
    cfg = parse_config(config, values, "test")
    solver(cfg, Experiment(folder, folder.name)).run()
    (folder / "config.json").write_text(json.dumps(cfg.model_dump(mode="json")))


@pytest.fixture
def lm(dora_dir: Path) -> Model:
    return load_model(dora_dir / "xps/1abe1000", device="cpu")


@pytest.fixture
def waves(dora_dir: Path) -> Model:
    return load_model(dora_dir / "xps/5a541111", device="cpu")


def test_a_model_is_found_by_signature_beginning_and_folder(dora_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLFA_DORA_DIR", str(dora_dir))
    for text in ("1abe1000", "1abe", "//sig/1abe1000", str(dora_dir / "xps/1abe1000")):
        assert load_model(text).info.folder.name == "1abe1000"
    with pytest.raises(ConfigError, match="no such experiment"):
        load_model("77777777")
    with pytest.raises(ConfigError, match=r"no such experiment .*folder and no Hub id; pass a signature.* Hub$"):
        load_model("nowhere/at/all")
    with pytest.raises(ConfigError, match=r"did you mean 1abe1000\?$"):
        load_model("1abe1001")
    with pytest.raises(ConfigError, match=r"nobody/knows.*export_model"):
        load_model("nobody/knows")


def test_a_model_says_what_it_is(lm: Model, waves: Model) -> None:
    assert lm.info.conditions == {"genre": "labels"} and lm.info.sample_rate == RATE
    whole = build_model(lm.trained, device="cpu").generator.network
    assert lm.info.num_parameters == sum(value.numel() for value in whole.parameters())
    before = lm.info.num_parameters
    lm.generate(seconds=0.01)
    assert lm.info.num_parameters == before
    assert waves.info.conditions == {} and waves.draws_samples and not lm.draws_samples


@pytest.mark.slow
def test_loading_builds_nothing_of_a_trainer_and_disturbs_no_random_numbers(dora_dir: Path) -> None:
    code = f"""
import sys, torch
torch.manual_seed(1); expected = torch.rand(1); torch.manual_seed(1)
import solfa
model = solfa.load_model({str(dora_dir / "xps/1abe1000")!r})
model.generate(seconds=0.01)
assert torch.rand(1) == expected
named = [name for name in sys.modules if name.startswith(("solfa.solvers", "solfa.experiments", "lightning", "hydra"))]
assert not named, named
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_clips_are_those_of_the_seeds_asked_for(lm: Model) -> None:
    told = {"genre": "jazz"}
    clips = lm.generate(seconds=0.05, num=3, seed=4, conditions=told, temperature=2.0, top_k=0)
    (second,) = lm.generate(seconds=0.05, seed=5, conditions=told, temperature=2.0, top_k=0)
    assert [clip.audio.shape[-1] for clip in clips] == [100] * 3
    assert torch.equal(clips[1].audio, second.audio) and not torch.equal(clips[0].audio, clips[1].audio)
    assert clips[0].metadata["sampling"]["temperature"] == 2.0


few_bits = pytest.mark.skipif(not has_fbgemm(), reason="this torch has no kernels for weights of few bits")


@pytest.mark.parametrize(
    "weights", [None, "fp32", pytest.param("fp16", marks=few_bits), pytest.param("int8", marks=few_bits)]
)
def test_generating_and_moving_change_no_answer(dora_dir: Path, weights: Any) -> None:
    model = load_model(dora_dir / "xps/1abe1000", device="cpu", weights=weights)
    sound = torch.sin(torch.arange(60) / 3)[None]
    before, (clip,) = model.log_prob(sound), model.generate(seconds=0.02)
    assert model.log_prob(sound) == before
    model.to("cpu:0")
    assert model.log_prob(sound) == before
    assert torch.equal(model.generate(seconds=0.02)[0].audio, clip.audio)


def test_a_model_that_has_generated_moves_as_a_whole(lm: Model) -> None:
    lm.generate(seconds=0.01)
    lm._move(torch.device("meta"))
    assert not [part for part in lm.generator.network.modules() if isinstance(part, ForGeneration)]
    assert {value.device.type for value in lm.generator.network.parameters()} == {"meta"}


@few_bits
def test_a_model_stays_where_its_weights_can_be_used(dora_dir: Path) -> None:
    small = load_model(dora_dir / "xps/1abe1000", device="cpu", weights="int8")
    with pytest.raises(ConfigError, match=r"`weights=int8`.*meta"):
        small._move(torch.device("meta"))
    assert small.device.type == "cpu" and len(small.generate(seconds=0.01)) == 1


def test_a_weight_layout_that_a_model_cannot_have_is_refused_when_it_is_loaded(dora_dir: Path) -> None:
    with pytest.raises(ConfigError, match=r"`weights`: .*int8.*found 'fp4'"):
        load_model(dora_dir / "xps/1abe1000", weights="fp4")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"`weights=int8`.*sashimi"):
        load_model(dora_dir / "xps/5a541111", weights="int8")


def test_progress_is_told_and_bad_wishes_are_refused(lm: Model, waves: Model) -> None:
    told: list[tuple[int, int]] = []
    lm.generate(seconds=0.01, num=2, on_progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (40, 40) and told == sorted(told)
    with pytest.raises(ConfigError, match="temprature"):
        lm.generate(seconds=0.01, temprature=1.0)
    for wish in ({"num": 0}, {"num": "2"}, {"num": 1.5}, {"seed": 1.5}, {"seed": "1"}, {"seconds": "3"}, {"text": 3}):
        with pytest.raises(ConfigError, match=rf"`{next(iter(wish))}`.*found {next(iter(wish.values()))!r}"):
            lm.generate(**wish)
    with pytest.raises(ConfigError, match="text"):
        lm.generate("a piano", seconds=0.01)
    with pytest.raises(ConfigError, match="on_audio"):
        lm.draw([ClipRequest("x", 0.01, 0)], on_audio=lambda block: None)
    with pytest.raises(ConfigError, match="no conditions"):
        waves.generate("a piano", seconds=0.01)
    with pytest.raises(ConfigError, match="device"):
        lm.to("cuda")


def test_the_log_probability_of_a_drawn_waveform_is_that_of_its_draw(waves: Model) -> None:
    (clip,) = waves.generate(seconds=0.1, seed=3)
    # The kernel sums sample by sample in float32 what the network computes as a convolution; 100 samples of 6 bits.
    assert waves.log_prob(clip) == pytest.approx(clip.metadata["log_prob"], abs=100 * 6 * 1e-5)


def test_log_probabilities_of_all_continuations_sum_to_one(lm: Model) -> None:
    """A clip of one frame has as many outcomes as a codebook has entries."""
    codes = torch.arange(16).view(16, 1, 1, 1)
    total = sum(np.exp(lm.generator.log_prob(one[0], None, {"genre": "folk"})) for one in codes)
    assert total == pytest.approx(1.0, abs=1e-5)


def test_log_prob_reads_files_arrays_and_stored_clips_alike(lm: Model, dora_dir: Path, tmp_path: Path) -> None:
    stored = solfa.open_dataset(dora_dir / "tones.solfa")[0]
    audio = lm.codec.decode(stored)
    soundfile.write(tmp_path / "clip.wav", audio.numpy().T, RATE, subtype="FLOAT")
    wanted = lm.log_prob(stored, conditions={"genre": "jazz"})
    assert wanted == lm.log_prob(audio, conditions={"genre": "jazz"})
    assert wanted == lm.log_prob(tmp_path / "clip.wav", conditions={"genre": "jazz"})
    assert wanted != lm.log_prob(audio, conditions={"genre": "folk"})
    with pytest.raises(ConfigError, match=r"expected \[C, N\]"):
        lm.log_prob(audio[0])
    with pytest.raises(AudioError, match=r"missing\.wav: no such file"):
        lm.log_prob("missing.wav")


@pytest.mark.parametrize("signature", ["1abe1000", "5a541111"])
def test_an_exported_model_generates_the_same_in_another_place(dora_dir: Path, tmp_path: Path, signature: str) -> None:
    export_model(dora_dir / "xps" / signature, tmp_path / "carried")
    here, there = load_model(dora_dir / "xps" / signature), load_model(tmp_path / "carried")
    ours, theirs = here.generate(seconds=0.05, num=2), there.generate(seconds=0.05, num=2)
    assert all(torch.equal(one.audio, other.audio) for one, other in zip(ours, theirs, strict=True))
    assert there.info.num_parameters == here.info.num_parameters
    again = export_model(tmp_path / "carried", tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (tmp_path / "carried/model.safetensors").read_bytes()


def test_an_export_in_half_precision_is_half_as_large_and_nearly_the_same(dora_dir: Path, tmp_path: Path) -> None:
    whole, half = (export_model(dora_dir / "xps/1abe1000", tmp_path / f"{half}", half=half) for half in (False, True))
    full, rounded = (TensorFiles(folder) for folder in (whole, half))
    for name in full.names:
        assert torch.equal(rounded.read(name), full.read(name).half())
    assert json.loads((half / "config.json").read_text())["about"]["weights_sha256"] in (half / "README.md").read_text()
    audio, like = np.zeros((1, 40), np.float32), {"genre": "jazz"}
    here, there = (load_model(folder, device="cpu").log_prob(audio, conditions=like) for folder in (whole, half))
    assert here != there and abs(here - there) < 0.05 * abs(here)
    again = export_model(half, tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (half / "model.safetensors").read_bytes()


def test_an_exported_model_is_loaded_from_the_hub_by_its_id(
    dora_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    root = tmp_path / "models--me--tones"
    export_model(dora_dir / "xps/1abe1000", root / "snapshots" / ("0" * 40))
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text("0" * 40)
    there, here = load_model("me/tones"), load_model(dora_dir / "xps/1abe1000")
    assert torch.equal(there.generate(seconds=0.02)[0].audio, here.generate(seconds=0.02)[0].audio)


def test_the_card_tells_data_hashes_licences_and_the_curve(dora_dir: Path, tmp_path: Path) -> None:
    folder = export_model(dora_dir / "xps/1abe1000", tmp_path / "carried")
    card = (folder / "README.md").read_text()
    config = json.loads((folder / "config.json").read_text())
    assert config["data"]["digest"] in card and config["about"]["weights_sha256"] in card
    assert "CC-jazz" in card and "2 clips" in card and "genre (labels)" in card
    assert "curve.svg" in card and "<polyline" in (folder / "curve.svg").read_text()
    assert "pipeline_tag" not in card and "text=" not in card, "it reads a genre, and no text"
    assert not {"dset", "optim"} & set(config["settings"])


def test_weights_of_others_are_told_with_their_hashes(dora_dir: Path, tmp_path: Path) -> None:
    """The model that another one started from, also if it was interrupted on the way, and the encoder of its texts."""
    text = {"kind": "text", "encoder": str(write_t5(tmp_path / "tiny-t5"))}
    values = lm_values(dora_dir / "tones.solfa") | {"conditioner": {"conditioners": {"description": text}}}
    run(LMSolver, LMConfig, tmp_path / "ba5e0000", values)
    values |= {"continue_from": str(tmp_path / "ba5e0000")}
    run(LMSolver, LMConfig, tmp_path / "70e50000", with_epochs(values, 1))
    run(LMSolver, LMConfig, tmp_path / "70e50000", with_epochs(values, 4))
    base, tuned = (export_model(tmp_path / name, tmp_path / f"{name}.out") for name in ("ba5e0000", "70e50000"))
    base_about, about = (json.loads((folder / "config.json").read_text())["about"] for folder in (base, tuned))
    assert about["epoch"] > 1, "the best weights are those of the resumed run"
    assert about["started_from"] == {"source": "ba5e0000", "sha256": base_about["weights_sha256"]}
    assert about["parts"]["description encoder"]["source"] == "tiny-t5" and "started_from" not in base_about
    card = (tuned / "README.md").read_text()
    assert "pipeline_tag: text-to-audio" in card and "text=" in card
    for told in (about["started_from"], about["parts"]["description encoder"]):
        assert told["source"] in card and told["sha256"] in card
    assert str(tmp_path) not in (tuned / "README.md").read_text().partition("decoded by")[0]


def with_epochs(values: dict[str, Any], epochs: int) -> dict[str, Any]:
    return values | {"optim": values["optim"] | {"epochs": epochs}}


def test_a_checkpoint_of_before_says_nothing_of_others(dora_dir: Path, tmp_path: Path) -> None:
    old = Path(shutil.copytree(dora_dir / "xps/1abe1000", tmp_path / "01d00000"))
    assert not {"started_from", "parts"} & set(read_state(old / "best.pt"))
    about = json.loads((export_model(old, tmp_path / "out") / "config.json").read_text())["about"]
    assert not {"started_from", "parts"} & set(about)


def test_the_card_of_a_pushed_model_loads_it_from_there(dora_dir: Path, tmp_path: Path) -> None:
    folder = export_model(dora_dir / "xps/1abe1000", tmp_path / "carried", name="me/piano")
    card = (folder / "README.md").read_text()
    assert 'load_model("me/piano")' in card and "# carried" in card and "1 channel," in card


def test_a_damaged_or_newer_export_is_refused(dora_dir: Path, tmp_path: Path) -> None:
    folder = export_model(dora_dir / "xps/1abe1000", tmp_path / "carried")
    with pytest.raises(ConfigError, match="already exists"):
        export_model(dora_dir / "xps/1abe1000", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "format_version": 9}))
    with pytest.raises(ConfigError, match="format_version"):
        load_model(folder)
    config["settings"]["model"]["dim"] = 32
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(StoreError, match=r"expected shape .*found"):
        load_model(folder)


def test_an_encoded_clip_has_a_likelihood_whatever_its_length(waves: Model) -> None:
    codes = torch.zeros(1, 7, 1, dtype=torch.int64)
    audio = waves.codec.decode(Encoded(codes, 7))[0]
    assert -7 * 6 * np.log(2) * 3 < waves.log_prob(audio) < 0
