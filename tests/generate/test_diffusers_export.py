"""A pipeline of diffusers in, training, a pipeline out: the same weights, and the same clips from it as from here."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import soundfile
import torch

from solfa.errors import ConfigError
from solfa.generate.diffusers_export import export_as_diffusers
from solfa.generate.export import export_adapter
from solfa.generate.model import build_model, load_model
from solfa.generate.trained_folder import read_trained
from solfa.models.flow.generation import clip_noise
from solfa.models.flow.published_models import read_published
from solfa.solvers.tasks.flow import FlowSolver
from solfa.store.array_dataset import append_arrays
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec, DatasetInfo
from solfa.store.shard_writer import Outcome
from solfa.xp.layout import BEST
from tests.codecs import tiny
from tests.models.conditioners.tiny_encoders import WIDTH, write_t5
from tests.solvers.tasks.test_flow import flow_values, solver_of

ROOT = Path(__file__).parents[2]
FRAMES, TOKENS = 12, 5
TRANSFORMERS = {
    "open": {
        "sample_size": FRAMES,
        "in_channels": 4,
        "out_channels": 4,
        "num_layers": 2,
        "attention_head_dim": 64,
        "num_attention_heads": 2,
        "num_key_value_attention_heads": 1,
        "cross_attention_dim": WIDTH,
        "cross_attention_input_dim": WIDTH,
        "global_states_input_dim": 2 * WIDTH,
    },
    "three": {
        "io_channels": 6,
        "embed_dim": 32,
        "depth": 2,
        "num_heads": 2,
        "cond_token_dim": WIDTH,
        "global_cond_dim": WIDTH,
        "local_add_cond_dim": 7,
        "num_memory_tokens": 2,
    },
}
SETTINGS = {
    "open": {"kind": "stable_audio_open", "dim": 128, "num_layers": 2, "num_heads": 2, "num_kv_heads": 1},
    "three": {
        "kind": "stable_audio_3",
        "dim": 32,
        "num_layers": 2,
        "num_heads": 2,
        "num_memory_tokens": 2,
        "timing": ["seconds_total"],
    },
}


class EulerOfV:
    """A scheduler for a network that predicts v: straight steps from noise to data, in the pipeline's terms."""

    order, init_noise_sigma = 1, 1.0

    def set_timesteps(self, count: int, device: Any = None) -> None:
        self.line = [1 - step / count for step in range(count + 1)]
        self.timesteps = torch.tensor([math.atan2(t, 1 - t) * 2 / math.pi for t in self.line[:-1]])

    def _angle(self, time: torch.Tensor) -> tuple[float, float]:
        return math.cos(float(time) * math.pi / 2), math.sin(float(time) * math.pi / 2)

    def scale_model_input(self, points: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return points * sum(self._angle(time))

    def step(self, v: torch.Tensor, time: torch.Tensor, points: torch.Tensor) -> Any:
        a, b = self._angle(time)
        read = points * (a + b)
        place = self.timesteps.tolist().index(float(time))
        velocity = (b * read + a * v) - (a * read - b * v)
        moved = points + (self.line[place + 1] - self.line[place]) * velocity
        return diffusers.schedulers.scheduling_utils.SchedulerOutput(prev_sample=moved)


def write_pipeline(folder: Path, kind: str) -> Path:
    """Write a tiny pipeline, part by part, as diffusers does."""
    text = write_t5(folder / "both")
    torch.manual_seed(1)
    if kind == "open":
        tiny.make_oobleck(folder / "vae")
        network: Any = diffusers.StableAudioDiTModel(**TRANSFORMERS[kind])
        diffusers.StableAudioProjectionModel(WIDTH, WIDTH, 0, 60).save_pretrained(folder / "projection_model")
        scheduler = {"_class_name": "CosineDPMSolverMultistepScheduler", "prediction_type": "v_prediction"}
    else:
        tiny.make_same(folder / "vae")
        network = diffusers.StableAudio3DiTModel(**TRANSFORMERS[kind])
        with torch.no_grad():
            network.prompt_padding_embedding.normal_()
        embedder = diffusers.pipelines.stable_audio_3.StableAudio3DurationEmbedder(WIDTH, max_val=60.0)
        embedder.save_pretrained(folder / "duration_embedder")
        scheduler = {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1}
    network.save_pretrained(folder / "transformer")
    for name, content in (("scheduler", scheduler), ("tokenizer", {"model_max_length": TOKENS})):
        (folder / name).mkdir()
        (folder / name / f"{name}_config.json").write_text(json.dumps(content))
    kinds = {"open": "StableAudioPipeline", "three": "StableAudio3Pipeline"}
    (folder / "model_index.json").write_text(json.dumps({"_class_name": kinds[kind]}))
    return text


def trained_from(folder: Path, kind: str, **changes: Any) -> FlowSolver:
    """Fine-tune the pipeline of a folder on some latents of its autoencoder."""
    vae = str(folder / "pipeline" / "vae")
    width = TRANSFORMERS[kind]["in_channels" if kind == "open" else "io_channels"]
    array = ArraySpec(kind="latents", width=width, sample_rate=44_100, num_channels=2, hop_length=40, dtype="float32")
    rng = np.random.default_rng(0)
    outcomes = [
        Outcome(PlannedClip(name, name, name, caption="slow piano"), latents, num_samples=40 * FRAMES)
        for name, latents in ((f"{i}.wav", rng.standard_normal((FRAMES, width)).astype(np.float32)) for i in range(6))
    ]
    append_arrays(folder / "d.solfa", DatasetInfo.of(vae, array, {"codec": vae}), outcomes, {}, clips_per_shard=6)
    text = {"kind": "text", "encoder": str(folder / "pipeline" / "both"), "max_tokens": TOKENS, "project": False}
    model = {**SETTINGS[kind], "cond_dim": WIDTH, "max_seconds": 60, "context_tokens": TOKENS, "normalise": False}
    values = flow_values(
        folder / "d.solfa",
        model=model,
        conditioner={"conditioners": {"prompt": text}},
        dataset__segment_seconds=FRAMES * 40 / 44_100,
        continue_from=str(folder / "pipeline"),
        generate={"every": None},
        **changes,
    )
    solver = solver_of(folder / "xp", values)
    (folder / "xp").mkdir(exist_ok=True)
    (folder / "xp" / "config.json").write_text(solver.cfg.model_dump_json())
    return solver


def draw_there(folder: Path, kind: str, noise: torch.Tensor, seconds: float, hears: bool) -> torch.Tensor:
    if kind == "three":
        name = "StableAudio3InpaintPipeline" if hears else "StableAudio3Pipeline"
        pipe = getattr(diffusers, name).from_pretrained(folder)
        pipe.set_progress_bar_config(disable=True)
        silence = {"audio": torch.zeros(1, 2, 480), "mask": torch.zeros(1, 1, FRAMES)} if hears else {}
        return pipe("slow piano", duration=seconds, num_inference_steps=4, latents=noise, **silence).audios
    from transformers import AutoTokenizer, T5EncoderModel

    pipe = diffusers.StableAudioPipeline(
        vae=diffusers.AutoencoderOobleck.from_pretrained(folder / "vae"),
        text_encoder=T5EncoderModel.from_pretrained(folder / "text_encoder"),
        projection_model=diffusers.StableAudioProjectionModel.from_pretrained(folder / "projection_model"),
        tokenizer=AutoTokenizer.from_pretrained(folder / "tokenizer"),
        transformer=diffusers.StableAudioDiTModel.from_pretrained(folder / "transformer"),
        scheduler=EulerOfV(),  # the one in the folder draws noise, and needs torchsde
    )
    pipe.set_progress_bar_config(disable=True)
    return pipe("slow piano", audio_end_in_s=seconds, num_inference_steps=4, guidance_scale=3.0, latents=noise).audios


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "hears"), [("open", False), ("three", False), ("three", True)])
def test_a_pipeline_is_tuned_and_written_again_and_draws_there_what_it_draws_here(
    tmp_path: Path, kind: str, hears: bool
) -> None:
    write_pipeline(tmp_path / "pipeline", kind)
    shares = {"segments": 0.4, "beginnings": 0.4} if hears else {"segments": 0.0, "beginnings": 0.0}
    solver = trained_from(tmp_path, kind, inpainting=shares, optim__epochs=1, optim__updates_per_epoch=2)
    solver.run()
    assert read_published(str(tmp_path / "pipeline")).state.keys() == solver.network.dit.state_dict().keys()

    told = export_as_diffusers(tmp_path / "xp", tmp_path / "out")
    assert ("Inpaint" in told) == hears
    best = torch.load(tmp_path / "xp" / BEST, weights_only=True)["states"]["model"]
    back = read_published(str(tmp_path / "out"))
    assert all(torch.equal(tensor, best[f"dit.{name}"]) for name, tensor in back.state.items())
    start = read_published(str(tmp_path / "pipeline")).state
    assert any(not torch.equal(tensor, start[name]) for name, tensor in back.state.items()), "it was trained"
    assert back.settings == read_published(str(tmp_path / "pipeline")).settings

    model = load_model(tmp_path / "xp", device="cpu")
    seconds = FRAMES * 40 / 44_100
    noise = clip_noise([torch.Generator().manual_seed(3)], back.num_channels, FRAMES)
    options = {"guidance_scale": 3.0} if kind == "open" else {"grid": "log_snr"}
    (clip,) = model.generate("slow piano", seconds=seconds, seed=3, sampler="euler", steps=4, **options)
    there = draw_there(tmp_path / "out", kind, noise, seconds, hears)[0].numpy()
    here = clip.samples()[:, : there.shape[1]]
    assert there.shape[1] > 470 and here.std() > 1e-3
    here = np.clip(here, -1, 1) if kind == "three" else here  # as its pipeline does
    # Both in float32, in another order.
    assert np.allclose(here, there, atol=1e-4 * float(np.abs(there).max()) + 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["open", "three"])
def test_an_adapter_of_a_pipeline_is_put_on_it_by_peft_and_is_merged_into_one_that_is_written(
    tmp_path: Path, kind: str
) -> None:
    from peft import PeftModel

    write_pipeline(tmp_path / "pipeline", kind)
    shares = {"segments": 0.0, "beginnings": 0.0}
    changes: dict[str, Any] = {"optim__epochs": 1, "optim__updates_per_epoch": 2, "inpainting": shares}
    trained_from(tmp_path, kind, adapter={"rank": 2}, **changes).run()
    merged = build_model(read_trained(tmp_path / "xp"), device="cpu").generator.network.dit.dit
    network = getattr(diffusers, "StableAudioDiTModel" if kind == "open" else "StableAudio3DiTModel")
    theirs = network.from_pretrained(tmp_path / "pipeline" / "transformer")
    start = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    export_adapter(tmp_path / "xp", tmp_path / "adapter")
    export_as_diffusers(tmp_path / "xp", tmp_path / "out")
    by_peft = PeftModel.from_pretrained(theirs, tmp_path / "adapter").merge_and_unload().state_dict()
    written = network.from_pretrained(tmp_path / "out" / "transformer").state_dict()
    for found in (by_peft, written):
        assert found.keys() == start.keys()
        assert all(torch.equal(tensor, merged.state_dict()[name]) for name, tensor in found.items())
    assert any(not torch.equal(tensor, start[name]) for name, tensor in by_peft.items()), "it was trained"


@pytest.mark.slow
def test_an_adapter_of_a_pipeline_with_half_of_another_is_the_same_at_the_command_line(tmp_path: Path) -> None:
    write_pipeline(tmp_path / "pipeline", "three")
    changes: dict[str, Any] = {"optim__optimizer__lr": 0.3, "optim__epochs": 1, "optim__updates_per_epoch": 3}
    trained_from(tmp_path, "three", adapter={"rank": 2}, **changes).run()
    export_adapter(tmp_path / "xp", tmp_path / "adapter")
    (here,) = load_model(tmp_path / "xp", device="cpu", adapters={tmp_path / "adapter": 0.5}).generate(
        "slow piano", seconds=0.01, seed=3, steps=4
    )
    typed = [
        "generate",
        str(tmp_path / "xp"),
        "--text",
        "slow piano",
        "--seconds",
        "0.01",
        "--seed",
        "3",
        "--steps",
        "4",
    ]
    typed += ["--device", "cpu", "--adapter", f"{tmp_path / 'adapter'}=0.5", "--out", str(tmp_path / "clips")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "solfa", *typed]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (written,) = (tmp_path / "clips").glob("*.wav")
    found = soundfile.read(written, dtype="float32", always_2d=True)[0].T
    assert np.allclose(found, np.clip(here.samples(), -1, 1), atol=2**-15)  # files have 16 bits
    for factors in ({}, {tmp_path / "adapter": -1.0}):
        (other,) = load_model(tmp_path / "xp", device="cpu", adapters=factors).generate(
            "slow piano", seconds=0.01, seed=3, steps=4
        )
        assert not np.allclose(found, np.clip(other.samples(), -1, 1), atol=2**-15), "the factor matters"


def test_a_run_begins_with_the_published_weights_and_without_a_scale(tmp_path: Path) -> None:
    write_pipeline(tmp_path / "pipeline", "open")
    solver = trained_from(tmp_path, "open")
    solver.load_pretrained(str(tmp_path / "pipeline"))
    state = read_published(str(tmp_path / "pipeline")).state
    assert all(torch.equal(solver.network.dit.state_dict()[name], tensor) for name, tensor in state.items())
    assert not solver.network.mean.any() and bool((solver.network.std == 1).all())
    other = solver.cfg.model.model_copy(update={"num_layers": 3, "max_seconds": 50.0})
    solver.cfg = solver.cfg.model_copy(update={"model": other})
    with pytest.raises(ConfigError, match=r"model\.num_layers=2 model\.max_seconds=60\.0"):
        solver.load_pretrained(str(tmp_path / "pipeline"))


def test_what_a_pipeline_cannot_do_is_refused_with_what_to_set(tmp_path: Path) -> None:
    write_pipeline(tmp_path / "pipeline", "three")
    trained_from(tmp_path, "three", optim__epochs=1, optim__updates_per_epoch=1).run()
    vae = tmp_path / "pipeline" / "vae"
    vae.rename(tmp_path / "same")
    tiny.make_oobleck(vae, latent_channels=6)
    with pytest.raises(ConfigError, match=r"AutoencoderSAME.*stable_audio_3.*vae"):
        export_as_diffusers(tmp_path / "xp", tmp_path / "out")
    best = torch.load(tmp_path / "xp" / BEST, weights_only=True)
    best["states"]["model"]["std"] *= 2
    torch.save(best, tmp_path / "xp" / BEST)
    with pytest.raises(ConfigError, match=r"model\.normalise"):
        export_as_diffusers(tmp_path / "xp", tmp_path / "out")
    assert not (tmp_path / "out").exists()
