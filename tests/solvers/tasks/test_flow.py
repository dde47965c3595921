"""Flow matching on latents: the loss against closed forms, exact resuming, and clips from what was trained."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.generate.latent_model import LatentBatch
from solfa.generate.model import load_model
from solfa.generate.options import with_options
from solfa.generate.request import ClipRequest, Inpainting, Variation
from solfa.models.flow.generation import FlowSampling, draw_latents
from solfa.solvers.experiment import Experiment
from solfa.solvers.tasks.flow import FlowSolver, FlowSolverConfig
from solfa.solvers.watchers.protocol import Watcher, Watchers
from solfa.store.array_dataset import append_arrays
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec, DatasetInfo
from solfa.store.shard_writer import Outcome
from tests.data.stored import store_built_in_latents
from tests.solvers.conftest import check_resume
from tests.solvers.tasks.test_lm import store_songs
from tests.solvers.toy import changed

RATE = 100
MODEL = {
    "kind": "stable_audio_3",
    "dim": 16,
    "num_layers": 1,
    "num_heads": 2,
    "cond_dim": 8,
    "num_memory_tokens": 2,
    "differential": False,
    "max_seconds": 2,
}
OPEN = {"kind": "stable_audio_open", "dim": 128, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1, "cond_dim": 8}
WORDS = {
    "conditioners": {"text": {"kind": "words", "num_rows": 32, "width": 4}},
    "guidance_dropout": 0.2,
}


def store_latents(
    root: Path, count: int = 10, width: int = 4, scale: float = 1.0, codec: str = "none", frames: int = 20
) -> Path:
    """Store clips of independent normal numbers, each a frame longer than the one before."""
    array = ArraySpec(kind="latents", width=width, sample_rate=RATE, num_channels=1, hop_length=1, dtype="float32")
    rng = np.random.default_rng(0)
    outcomes = []
    for index in range(count):
        name = f"{index}.wav"
        planned = PlannedClip(name, name, name, caption="up" if index % 2 else "down")
        latents = (rng.standard_normal((frames + index, width)) * scale).astype(np.float32)
        outcomes.append(Outcome(planned, latents, num_samples=len(latents)))
    append_arrays(root, DatasetInfo.of(codec, array, {"codec": codec}), outcomes, {}, clips_per_shard=5)
    return root


def flow_values(data: Path, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "solver": "flow",
        "device": "cpu",
        "dset": {"train": str(data), "hold_out": {"clips": 3}},
        "dataset": {"segment_seconds": 0.16, "batch_size": 4},
        "model": MODEL,
        "conditioner": WORDS,
        "optim": {
            "epochs": 2,
            "updates_per_epoch": 5,
            "optimizer": {"kind": "adamw", "lr": 0.01},
            "ema": {"decay": 0.9},
        },
        "logging": {"tensorboard": False, "log_updates": 1},
    }
    return changed(values, changes)


def solver_of(folder: Path, values: dict[str, Any], watcher: Watcher | None = None) -> FlowSolver:
    config = parse_config(FlowSolverConfig, values, "flow")
    return FlowSolver(config, Experiment(folder, "flow", watcher or Watchers(())))


@pytest.fixture(scope="module")
def latents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_latents(tmp_path_factory.mktemp("data") / "latents.solfa")


def best_prediction(scale: float, objective: str) -> Callable[..., torch.Tensor]:
    """Predict as well as anybody can, if the latents are N(0, scale^2)."""

    def predict(points: torch.Tensor, times: torch.Tensor, *others: Any) -> torch.Tensor:
        t = times[:, None, None]
        a, b = (1 - t, t) if objective == "rectified_flow" else ((t * math.pi / 2).cos(), (t * math.pi / 2).sin())
        data = points * a * scale**2 / (a**2 * scale**2 + b**2)
        noise = points * b / (a**2 * scale**2 + b**2)
        return noise - data if objective == "rectified_flow" else a * noise - b * data

    return predict


def least_loss(scale: float, objective: str) -> float:
    """Integrate the least mean squared error over uniform times, in closed form at each time."""
    times = (np.arange(100_000) + 0.5) / 100_000
    if objective == "rectified_flow":
        return float(np.mean(scale**2 / ((1 - times) ** 2 * scale**2 + times**2)))
    a, b = np.cos(times * np.pi / 2), np.sin(times * np.pi / 2)
    return float(np.mean(scale**2 / (a**2 * scale**2 + b**2)))


@pytest.mark.parametrize("objective", ["rectified_flow", "v"])
@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_the_best_prediction_has_the_least_loss_there_is(tmp_path: Path, objective: str, scale: float) -> None:
    data = store_latents(tmp_path / "many.solfa", count=12, width=16, scale=scale, frames=2000)
    model = {**MODEL, "objective": objective}
    values = flow_values(data, model=model, dset__hold_out={"clips": 10}, dataset__segment_seconds=20, valid_times=16)
    solver = solver_of(tmp_path / "xp", values)
    solver.network.std.fill_(1.0)  # else everything would have the scale 1
    solver.network.mean.fill_(0.0)
    solver.network.forward = best_prediction(scale, objective)  # type: ignore[method-assign]
    found = solver.run_stage("valid")["loss"]
    if objective == "rectified_flow" and scale == 1.0:
        assert least_loss(1.0, objective) == pytest.approx(math.pi / 2, rel=1e-6)
    if objective == "v" and scale == 1.0:
        assert least_loss(1.0, objective) == pytest.approx(1.0, rel=1e-6)
    # 320,000 squared errors at each of 160 times, which are spread evenly.
    assert found == pytest.approx(least_loss(scale, objective), rel=0.02)


@pytest.mark.slow
@pytest.mark.learning
def test_a_small_network_learns_most_of_what_can_be_learnt_of_a_gaussian(tmp_path: Path) -> None:
    data = store_latents(tmp_path / "many.solfa", count=40, width=4, scale=3.0, frames=64)
    optim = {"epochs": 1, "updates_per_epoch": 150, "optimizer": {"kind": "adamw", "lr": 1e-2}, "ema": {"decay": 0.98}}
    values = flow_values(
        data, optim=optim, dataset__batch_size=16, dataset__segment_seconds=0.16, dset__hold_out__clips=8
    )
    solver = solver_of(tmp_path / "xp", values)
    solver.run()
    # Predicting zero has a loss of 2, knowing everything that can be known pi / 2.
    assert solver.history[-1]["valid"]["loss"] < (2 + 3 * math.pi / 2) / 4


def test_validation_does_not_depend_on_the_epoch_and_training_does(latents: Path, tmp_path: Path) -> None:
    solver = solver_of(tmp_path, flow_values(latents))
    first = solver.run_stage("valid")
    batch = next(iter(solver.dataloaders["train"]))
    solver._stage = "train"
    drawn = solver._draws(batch)
    solver.epoch = 2
    assert solver.run_stage("valid") == first
    solver._stage = "train"
    later = next(iter(solver.dataloaders["train"]))
    assert not torch.equal(solver._draws(later).noise, drawn.noise)


def test_a_clip_gets_the_same_draws_in_whatever_batch_it_is(latents: Path, tmp_path: Path) -> None:
    solver = solver_of(tmp_path, flow_values(latents, dataset__mode={"kind": "pad"}, dataset__segment_seconds=None))
    by_clip: dict[str, set[bytes]] = {}
    for batch_size in (1, 3):
        again = solver_of(
            tmp_path / str(batch_size),
            flow_values(
                latents,
                dataset__mode={"kind": "pad"},
                dataset__segment_seconds=None,
                dataset__valid={"batch_size": batch_size},
            ),
        )
        for batch in again.dataloaders["valid"]:
            drawn = solver._draws(batch)
            for row, (name, count) in enumerate(zip(batch.ids, batch.num_frames.tolist(), strict=True)):
                assert not drawn.noise[row, :, count:].any()
                by_clip.setdefault(name, set()).add(drawn.noise[row, :, :count].numpy().tobytes())
    assert len(by_clip) == 3 and all(len(found) == 1 for found in by_clip.values())


@pytest.mark.parametrize("model", [MODEL, pytest.param(OPEN, marks=pytest.mark.slow)], ids=lambda model: model["kind"])
def test_run_interrupted_and_resumed_equals_an_unbroken_one(latents: Path, tmp_path: Path, model: Any) -> None:
    values = flow_values(latents, model=model)
    check_resume(tmp_path, lambda folder, watcher: solver_of(folder, values, watcher), 7)


def test_latents_with_a_scale_are_drawn_from_their_posterior_in_training_and_are_means_elsewhere(
    tmp_path: Path,
) -> None:
    data = store_latents(tmp_path / "d.solfa", width=8, codec="some_vae:with_scale=true")
    solver = solver_of(tmp_path / "xp", flow_values(data))
    assert solver.num_channels == 4 and solver.network.mean.shape == (4, 1)
    batch = next(iter(solver.dataloaders["train"]))
    solver._stage = "train"
    assert solver._draws(batch).posterior.any()
    solver._stage = "valid"
    assert not solver._draws(batch).posterior.any()
    assert math.isfinite(solver.run_stage("train")["loss"]) and math.isfinite(solver.run_stage("valid")["loss"])


def test_parts_are_given_as_often_as_asked(latents: Path, tmp_path: Path) -> None:
    for shares, expected in [
        ({"segments": 1, "beginnings": 0}, "segment"),
        ({"segments": 0, "beginnings": 1}, "start"),
    ]:
        solver = solver_of(tmp_path / expected, flow_values(latents, inpainting=shares))
        solver._stage = "train"
        batch = next(iter(solver.dataloaders["train"]))
        for row in solver._draws(batch).given:
            ups = int((row.int().diff() == 1).sum()) + int(row[0])
            if expected == "segment":
                assert not row.all() and int((~row).int().diff().abs().sum()) <= 2
            else:
                assert ups <= 1 and (not row.any() or bool(row[0]))
        solver._stage = "valid"
        assert not solver._draws(batch).given.any()


@pytest.mark.slow
@pytest.mark.learning
def test_four_clips_are_learnt_by_heart_and_told_apart(tmp_path: Path) -> None:
    """Each clip, by its caption alone, comes out nearer to itself than to the others."""
    root, width, frames = tmp_path / "four.solfa", 4, 16
    array = ArraySpec(kind="latents", width=width, sample_rate=RATE, num_channels=1, hop_length=1, dtype="float32")
    rng = np.random.default_rng(0)
    words = ["north", "south", "east", "west"]
    signs = [[1, 1, 1, -1], [1, -1, -1, -1], [-1, 1, -1, 1], [-1, -1, 1, 1]]
    noise = 0.3 * rng.standard_normal((4, frames, width))
    clips = dict(zip(words, (1.5 * np.array(signs)[:, None] + noise).astype(np.float32), strict=True))
    outcomes = [Outcome(PlannedClip(w, w, w, caption=w), array_, num_samples=frames) for w, array_ in clips.items()]
    append_arrays(root, DatasetInfo.of("none", array, {"codec": "none"}), outcomes, {}, clips_per_shard=4)
    optim = {"epochs": 1, "updates_per_epoch": 500, "optimizer": {"kind": "adamw", "lr": 1e-2}, "ema": {"decay": 0.9}}
    values = flow_values(
        root,
        model={**MODEL, "dim": 32},
        optim=optim,
        dset={"train": str(root), "valid": str(root)},
        dataset__segment_seconds=frames / RATE,
        inpainting={"segments": 0, "beginnings": 0},
        conditioner={"conditioners": {"text": {"kind": "words", "num_rows": 64, "width": 16}}},
    )
    solver = solver_of(tmp_path / "xp", values)
    solver.run()
    network = solver.network.eval()
    seconds = torch.tensor([[0.0, frames / RATE]] * 4)
    with torch.inference_mode():
        told = network.told(network.conditioners(network.conditioners.tokenize([{"text": w} for w in words])), seconds)
    drawn = draw_latents(network, told, told, frames, [1, 2, 3, 4], FlowSampling(steps=20))
    stored = torch.from_numpy(np.stack([clips[word] for word in words]))
    distances = (drawn[:, None] - stored[None]).square().mean(dim=(2, 3))
    assert distances.argmin(dim=1).tolist() == [0, 1, 2, 3]
    assert distances.diagonal().max() < 0.5 * distances[~torch.eye(4, dtype=torch.bool)].min()


def test_codes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs latents, found codes"):
        solver_of(tmp_path / "xp", flow_values(store_songs(tmp_path / "songs.solfa")))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment on latents of the built-in codec."""
    folder = tmp_path_factory.mktemp("trained")
    store_built_in_latents(folder / "d.solfa")
    stage = {"every": 1, "num_clips": 1, "seconds": 0.1, "sampling": {"steps": 2}}
    values = flow_values(folder / "d.solfa", dataset__segment_seconds=0.3, generate=stage)
    values["dset"]["hold_out"]["clips"] = 2
    solver = solver_of(folder / "xp", values)
    (folder / "xp").mkdir()
    (folder / "xp" / "config.json").write_text(solver.cfg.model_dump_json())
    solver.run()
    return folder / "xp"


def test_clips_of_a_trained_model_come_by_seed_text_and_seconds(trained: Path) -> None:
    model = load_model(trained, device="cpu")
    assert model.info.conditions == {"seconds_start": "number", "seconds_total": "number", "text": "words"}
    first, second = model.generate("a b", seconds=0.2, num=2, seed=3)
    assert first.samples().shape == (1, round(0.2 * 75) * 320) and first.sample_rate == 24_000
    assert first.metadata["conditions"] == {"seconds_start": 0.0, "seconds_total": 0.2, "text": "a b"}
    (again,) = model.generate("a b", seconds=0.2, seed=4)
    assert np.allclose(again.samples(), second.samples(), atol=1e-3)
    assert not np.allclose(first.samples(), second.samples(), atol=1e-3)
    with pytest.raises(ConfigError, match="seconds_total"):
        model.generate(seconds=0.2, conditions={"seconds_total": "long"})
    with pytest.raises(ConfigError, match="temperature"):
        model.generate(seconds=0.2, temperature=1.0)


@pytest.fixture
def riff(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    soundfile.write(tmp_path / "riff.wav", 0.1 * rng.standard_normal(24_000 // 5), 24_000)
    return tmp_path / "riff.wav"


def decoded_latents(model: Any, request: ClipRequest, **options: Any) -> tuple[torch.Tensor, Any]:
    """Draw latents as a request asks for them, and say what was given."""
    generator = model.generator
    job = generator._job(request)
    batch = LatentBatch([job], generator.network.conditioners.checked([job.told]))
    return generator._latents(batch, with_options(generator.sampling, options), lambda share: None)[0], job


def test_a_prompt_is_continued_in_latents_exactly(trained: Path, riff: Path) -> None:
    model = load_model(trained, device="cpu")
    latents, job = decoded_latents(model, ClipRequest("more", 0.5, 7, prompt=riff))
    assert job.num_frames == len(latents) == 38 and job.is_given.sum() == 15
    assert torch.allclose(latents[:15], job.given[:15], atol=1e-5)
    (clip,) = model.draw([ClipRequest("more", 0.5, 7, prompt=riff)])
    assert clip.metadata["prompt_seconds"] == pytest.approx(0.2)
    assert clip.metadata["prompt_file"] == "riff.wav"


def test_a_stretch_is_made_anew_and_the_rest_stays(trained: Path, riff: Path) -> None:
    model = load_model(trained, device="cpu")
    request = ClipRequest("patched", 0.2, 7, edit=Inpainting(riff, 0.08, 0.12))
    latents, job = decoded_latents(model, request)
    assert job.is_given.tolist() == [not 6 <= frame < 9 for frame in range(15)]
    assert torch.allclose(latents[job.is_given], job.given[job.is_given], atol=1e-5)
    assert not torch.allclose(latents[~job.is_given], job.given[~job.is_given], atol=1e-2)
    with pytest.raises(ConfigError, match="begins within"):
        list(model.draw([ClipRequest("outside", 0.2, 7, edit=Inpainting(riff, 5.0, 6.0))]))


def test_a_clip_longer_than_a_row_is_drawn_in_windows_and_a_short_one_as_ever(trained: Path) -> None:
    model = load_model(trained, device="cpu")
    assert int(model.generator.network.trained_frames) == 22
    (whole,) = model.generate("a b", seconds=0.29, seed=1)
    (again,) = model.generate("a b", seconds=0.29, seed=1, window_seconds=5)
    assert np.array_equal(whole.samples(), again.samples())
    long, at_once = decoded_latents(model, ClipRequest("long", 0.8, 1))[0], ClipRequest("at once", 0.8, 1)
    assert len(long) == 60
    other, _ = decoded_latents(model, at_once, window_seconds=5)
    assert not torch.allclose(long, other, atol=1e-2)
    first, _ = decoded_latents(model, ClipRequest("first", 22 / 75, 1, conditions={"seconds_total": 0.8}))
    assert torch.allclose(long[:22], first, atol=1e-4), "the first window is drawn as if it were alone"
    pair = [ClipRequest("one", 0.8, 1), ClipRequest("two", 0.8, 2)]
    assert np.allclose(list(model.draw(pair))[1].samples(), next(iter(model.draw(pair[1:]))).samples(), atol=1e-3)


def test_audio_outside_of_an_inpainted_stretch_stays_up_to_the_reach_of_the_decoder(
    trained: Path, tmp_path: Path
) -> None:
    model = load_model(trained, device="cpu")
    rng = np.random.default_rng(2)
    soundfile.write(tmp_path / "long.wav", 0.1 * rng.standard_normal(24_000 * 2), 24_000)
    (plain,) = model.generate(seconds=2, edit=Variation(tmp_path / "long.wav", 0.0))
    (changed,) = model.generate(seconds=2, edit=Inpainting(tmp_path / "long.wav", 0.96, 1.04), window_seconds=5)
    away = np.abs(plain.samples() - changed.samples())[0]
    begin, end, hop = 72, 78, 320  # the frames that are new
    assert away[begin * hop : end * hop].max() > 1e-3
    network = model.codec.model.config.network
    overlap = -(-(network.window - hop) // (2 * hop))
    reach = network.decoder_blocks * (network.kernel_size // 2) + overlap
    assert begin > reach and end + reach < 150
    # Every frame of the decoder is computed from the same numbers there; only their place in memory may differ.
    assert away[: (begin - reach) * hop].max() < 1e-6
    assert away[(end + reach) * hop :].max() < 1e-6
    assert away[: begin * hop].max() > 1e-6 and away[end * hop :].max() > 1e-6, "the reach is really there"


def test_a_variation_of_strength_0_is_what_the_codec_makes_of_the_recording(trained: Path, riff: Path) -> None:
    model = load_model(trained, device="cpu")
    audio = torch.from_numpy(soundfile.read(riff, dtype="float32")[0])[None, None]
    expected = model.codec.decode(model.codec.encode(audio))[0].numpy()
    (same,) = model.generate(seconds=0.2, edit=Variation(riff, 0.0))
    assert np.allclose(same.samples(), expected, atol=1e-4)
    (other,) = model.generate(seconds=0.2, edit=Variation(riff, 0.9))
    assert not np.allclose(other.samples(), expected, atol=1e-2) and other.metadata["strength"] == 0.9
