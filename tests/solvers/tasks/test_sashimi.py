"""SaShiMi as a task: it learns, resumes to the bit, reports bits per sample and generates with likelihoods."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import yaml

from solfa.codecs.families.linear import LinearOptions
from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.quantized import WaveformCodec
from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.model import load_model
from solfa.generate.request import ClipRequest
from solfa.generate.stream import AudioBlock, DrawsSamples
from solfa.generate.waveform_model import WaveformModel, waveform_codec
from solfa.generate.waveforms import LikelyClip, keep_likely
from solfa.models.sashimi.config import CategoricalHeadConfig, DmlHeadConfig, SashimiModelConfig
from solfa.models.sashimi.network import previous_classes
from solfa.ops.linear_prediction import fit_prediction
from solfa.solvers.experiment import Experiment
from solfa.solvers.tasks.sashimi import SashimiSolver, SashimiSolverConfig
from solfa.solvers.watchers.protocol import Watcher, Watchers
from tests.models.sashimi.state_spaces_network import Network, Original, random_state
from tests.solvers.best_weights import load_best
from tests.solvers.conftest import check_resume
from tests.solvers.waveforms import sashimi_values, store_tones

RATE = 1000
BITS = 6
HEADS = pytest.mark.parametrize("head", ["categorical", "dml"])


def solver_of(folder: Path, values: dict[str, Any], watcher: Watcher | None = None) -> SashimiSolver:
    cfg = parse_config(SashimiSolverConfig, values, "sashimi")
    return SashimiSolver(cfg, Experiment(folder, "sashimi", watcher or Watchers(())))


@pytest.fixture(scope="module")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    codec = WaveformCodec(MulawOptions(bits=BITS, sample_rate=RATE))
    return store_tones(tmp_path_factory.mktemp("data") / "tones.solfa", codec)


@pytest.mark.slow
@pytest.mark.learning
@HEADS
def test_it_learns_far_below_the_bits_of_the_grid(tones: Path, tmp_path: Path, head: str) -> None:
    changes = {"dset": {"train": str(tones), "valid": str(tones)}, "dataset__batch_size": 7, "model__dim": 16}
    optim = {"optim__updates_per_epoch": 45, "optim__epochs": 1, "optim__ema": None}
    solver = solver_of(tmp_path, sashimi_values(tones, model__output_head=head, **changes, **optim))
    solver.run()
    found = solver.history[-1]["valid"]
    assert found["bits_per_sample"] < BITS - 1.5
    assert found["bits_per_sample"] == pytest.approx(found["loss"] / math.log(2))
    told = {"entropy"} if head == "categorical" else {"avg_scale", "avg_mean", "mixture_entropy", "edge_mass"}
    assert told <= set(found) and told <= set(solver.history[-1]["train"])


def test_it_says_what_it_trains(tones: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        solver = solver_of(tmp_path, sashimi_values(tones, model__output_head="dml", model__n_mixtures=7))
    size = sum(parameter.numel() for parameter in solver.network.parameters())
    assert solver.describe() in caplog.messages
    for told in ("dml head with 7 mixtures", "64 classes", "receptive length 80 samples", f"{size:,} parameters"):
        assert told in solver.describe()


def test_the_bits_are_those_of_all_samples_and_of_no_padding(tones: Path, tmp_path: Path) -> None:
    solver = solver_of(tmp_path, sashimi_values(tones, dataset__valid={"batch_size": 2}))
    found = solver.run_stage("valid")["bits_per_sample"]
    nats, count = 0.0, 0
    model = solver.network.eval()
    for clip in solver.sources["valid"]:
        classes = torch.from_numpy(clip.array[:80, 0].astype(np.int64))[None]
        with torch.no_grad():
            log_prob = model(previous_classes(classes, model.start(1))).log_softmax(-1).gather(-1, classes[..., None])
        nats, count = nats - float(log_prob.sum()), count + classes.shape[1]
    assert count < 3 * 80  # some clips are shorter than a row
    assert found == pytest.approx(nats / count / math.log(2), abs=1e-5)


@pytest.mark.parametrize(
    ("kind", "stop_at"), [("categorical", 4), pytest.param("dml in pieces", 2, marks=pytest.mark.slow)]
)
def test_run_interrupted_and_resumed_equals_an_unbroken_one(
    tones: Path, tmp_path: Path, kind: str, stop_at: int
) -> None:
    changes: dict[str, Any] = {"checkpoint__minutes": 1e-9, "model__dropout": 0.1}
    if kind != "categorical":
        changes |= {"model__output_head": "dml", "truncate_seconds": 0.04, "model__gradient_checkpointing": True}
    values = sashimi_values(tones, **changes)
    check_resume(tmp_path, lambda folder, watcher: solver_of(folder, values, watcher), stop_at)


def test_a_linear_path_is_fitted_to_the_data_once_and_kept(tones: Path, tmp_path: Path) -> None:
    values = sashimi_values(tones, model__output_head="dml", model__prediction_order=5)
    solver = solver_of(tmp_path / "xp", values)
    source, path = solver.sources["train"], solver.network.linear_path
    amplitudes = [solver.codec.grid.to_audio(torch.from_numpy(clip.array[:, 0].astype(np.int64))) for clip in source]
    smallest = float(solver.codec.grid.borders().diff().min()) / 2
    expected = fit_prediction(amplitudes, 5, 10, smallest)
    fitted = (path.coefficients, path.whitening, path.error, solver.network.projection.bias[-10:])
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(fitted, expected, strict=True))
    solver.run()
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(fitted[:3], expected[:3], strict=True))
    assert "around a linear prediction of order 5" in solver.describe()
    # Continued with other data, the weights keep the prediction that they were trained with.
    (tmp_path / "xp" / "config.json").write_text(json.dumps(solver.cfg.model_dump(mode="json")))
    loaded = load_model(tmp_path / "xp").generator
    assert isinstance(loaded, WaveformModel)
    assert torch.equal(loaded.network.linear_path.coefficients, expected.coefficients)
    other = store_tones(tmp_path / "other.solfa", solver.codec, apart_hz=50.0)
    changed = sashimi_values(other, model__output_head="dml", model__prediction_order=5)
    again = solver_of(tmp_path / "again", {**changed, "continue_from": str(tmp_path / "xp")})
    assert not torch.equal(again.network.linear_path.coefficients, expected.coefficients)
    again.restore()
    assert torch.equal(again.network.linear_path.coefficients, expected.coefficients)


def test_moments_change_the_gradient_and_not_the_loss_that_is_reported(tones: Path, tmp_path: Path) -> None:
    found = {}
    for weight in (0.0, 2.0):
        values = sashimi_values(tones, model__output_head="dml", model__moment_weight=weight, optim__epochs=1)
        solver = solver_of(tmp_path / str(weight), {**values, "optim": {**values["optim"], "updates_per_epoch": 1}})
        found[weight] = solver.run_stage("train")
    assert found[0.0]["loss"] == found[2.0]["loss"] and found[0.0]["grad_norm"] != found[2.0]["grad_norm"]


def test_free_running_changes_the_gradient_and_not_the_loss_that_is_reported(tmp_path: Path) -> None:
    codec = WaveformCodec(MulawOptions(bits=BITS, sample_rate=RATE))
    long = store_tones(tmp_path / "long.solfa", codec, shortest=200)
    found = {}
    cases = {"none": None, "now": {"after": 0}, "later": {"after": 1}, "powers, too": {"after": 0, "power_weight": 3}}
    for name, settings in cases.items():
        changes = {"model__output_head": "dml", "dataset__segment_seconds": 0.15, "optim__epochs": 1}
        values = sashimi_values(long, **changes, optim__updates_per_epoch=1, free_running=settings)
        found[name] = solver_of(tmp_path / name, values).run_stage("train")
    assert found["none"]["loss"] == found["now"]["loss"] == found["later"]["loss"]
    assert found["none"]["grad_norm"] == found["later"]["grad_norm"] != found["now"]["grad_norm"]
    for metric in ("own_level_error", "own_power_error"):
        assert found["now"][metric] > 0 and metric not in found["later"]
    assert found["now"]["grad_norm"] != found["powers, too"]["grad_norm"] != found["none"]["grad_norm"]


def test_a_run_with_free_running_resumes_to_the_bit(tmp_path: Path) -> None:
    codec = WaveformCodec(MulawOptions(bits=BITS, sample_rate=RATE))
    long = store_tones(tmp_path / "long.solfa", codec, shortest=200)
    changes = {"model__output_head": "dml", "dataset__segment_seconds": 0.15, "checkpoint__minutes": 1e-9}
    values = sashimi_values(long, **changes, model__opening_samples=50, free_running={"after": 1, "every": 2})
    check_resume(tmp_path, lambda folder, watcher: solver_of(folder, values, watcher), 4)


def test_free_running_is_refused_where_there_is_nothing_to_teach(tones: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="free_running: expected a mixture with a linear path"):
        solver_of(tmp_path / "head", sashimi_values(tones, free_running={}))
    values = sashimi_values(tones, model__output_head="dml", free_running={"after": 0})
    with pytest.raises(ConfigError, match=r"free_running.seconds: expected rows of 128 samples or more, found 80"):
        solver_of(tmp_path / "short", values).run_stage("train")


def test_pieces_change_how_far_gradients_go_back_and_nothing_else(tones: Path, tmp_path: Path) -> None:
    def first_update(name: str, **changes: Any) -> SashimiSolver:
        values = sashimi_values(tones, optim__updates_per_epoch=1, optim__epochs=1, **changes)
        solver = solver_of(tmp_path / name, values)
        solver.before = solver.run_stage("valid")  # type: ignore[attr-defined]
        solver.run()
        return solver

    whole, pieces, one = (
        first_update("w"),
        first_update("p", truncate_seconds=0.015),
        first_update("1", truncate_seconds=9),
    )
    assert pieces.before["loss"] == pytest.approx(whole.before["loss"], abs=1e-5)  # type: ignore[attr-defined]
    assert pieces.history[0]["train"]["loss"] == pytest.approx(whole.history[0]["train"]["loss"], abs=1e-5)
    assert pieces.history[0]["train"]["grad_norm"] != pytest.approx(whole.history[0]["train"]["grad_norm"], rel=1e-4)
    assert pieces.schedules["optimizer"].updates == 1
    for mine, theirs in zip(one.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_dynamics_learn_more_slowly_and_never_decay(tones: Path, tmp_path: Path) -> None:
    solver = solver_of(tmp_path, sashimi_values(tones))
    groups = {tuple(group["param_names"]): group for group in solver.optimizer.param_groups}
    of_dynamics = [group for names, group in groups.items() if any(".dynamics." in name for name in names)]
    assert [(group["lr"], group["weight_decay"]) for group in of_dynamics] == [(pytest.approx(2e-3), 0.0)]
    assert any(group["weight_decay"] == 0.1 and group["lr"] == 2e-2 for group in groups.values())


@HEADS
def test_clips_are_drawn_with_their_exact_likelihood(tones: Path, tmp_path: Path, head: str) -> None:
    class Listener(Watcher):
        heard: Sequence[GeneratedClip] = ()

        def clips(self, stage: str, epoch: int, clips: Sequence[GeneratedClip]) -> None:
            self.heard = clips

    listener = Listener()
    generate = {"every": 2, "num_clips": 3, "seconds": 0.05, "sampling": {"temperature": 0.8}}
    solver = solver_of(tmp_path, sashimi_values(tones, generate=generate, model__output_head=head), listener)
    solver.run()
    assert [clip.name for clip in listener.heard] == ["000", "001", "002"]
    load_best(solver)
    for clip in listener.heard:
        audio = torch.as_tensor(clip.audio)
        assert audio.shape == (1, 50) and clip.sample_rate == RATE
        classes = solver.codec.encode(audio[None]).array[:, :, 0].long()
        with torch.no_grad():
            outputs = solver.network(previous_classes(classes, solver.network.start(1)))
        nats = float(solver.head.log_prob(outputs, classes).sum())
        assert clip.metadata["log_prob"] == pytest.approx(nats, abs=1e-3)
        assert clip.metadata["bits_per_sample"] == pytest.approx(-nats / 50 / math.log(2), abs=1e-4)
    mean = sum(clip.metadata["bits_per_sample"] for clip in listener.heard) / 3
    assert solver.history[-1]["generate"] == {"clips": 3.0, "bits_per_sample": pytest.approx(mean)}


@pytest.fixture(scope="module")
def trained(tones: Path, tmp_path_factory: pytest.TempPathFactory) -> WaveformModel:
    folder = tmp_path_factory.mktemp("xp")
    solver = solver_of(folder, sashimi_values(tones, optim__epochs=1))
    solver.run()
    (folder / "config.json").write_text(json.dumps(solver.cfg.model_dump(mode="json")))
    opened = load_model(folder).generator
    assert isinstance(opened, WaveformModel)
    return opened


def ask(generator: WaveformModel, requests: list[ClipRequest], **options: Any) -> list[GeneratedClip]:
    return list(generator.draw(requests, options, lambda done, total: None))


def test_a_trained_experiment_goes_on_from_a_prompt(trained: WaveformModel, tmp_path: Path) -> None:
    sound = 0.4 * np.sin(np.arange(40) / 3)
    soundfile.write(tmp_path / "prompt.wav", sound, RATE, subtype="FLOAT")
    prompted = ClipRequest("more", 0.1, 1, prompt=tmp_path / "prompt.wav")
    done: list[tuple[int, int]] = []
    alone = ClipRequest("alone", 0.1, 1)
    clips = list(trained.draw([prompted, alone], {}, lambda *numbers: done.append(numbers)))
    by_name = {clip.name: clip for clip in clips}
    more = by_name["more"]
    assert torch.as_tensor(more.audio).shape == (1, 100)
    quantised = trained.codec.decode(trained.codec.encode(torch.from_numpy(sound).float()[None, None]))[0]
    assert torch.equal(torch.as_tensor(more.audio)[:, :40], quantised)
    assert more.metadata["prompt_seconds"] == 0.04
    assert more.metadata["log_prob"] == pytest.approx(-more.metadata["bits_per_sample"] * 60 * math.log(2))
    assert by_name["alone"].metadata["prompt_seconds"] == 0
    assert done[-1] == (200, 200) and done == sorted(done)


def test_the_least_and_the_most_likely_clips_are_rejected(trained: WaveformModel) -> None:
    requests = [ClipRequest(f"{seed}", 0.02, seed) for seed in range(10)]
    bits = {clip.name: clip.metadata["bits_per_sample"] for clip in ask(trained, requests)}
    ordered = sorted(bits, key=lambda name: bits[name])
    kept = ask(trained, requests, reject_lowest=0.4, reject_highest=0.1)
    assert [clip.name for clip in kept] == ordered[1:6]
    assert [clip.file_name for clip in kept] == [f"rank-{at:02d}-{ordered[at - 1]}" for at in range(2, 7)]
    assert [(clip.metadata["rank"], clip.metadata["ranked_clips"]) for clip in kept] == [(at, 10) for at in range(2, 7)]
    assert [clip.name for clip in ask(trained, requests, sort=True)] == ordered
    assert all(clip.file_name == clip.name and "rank" not in clip.metadata for clip in ask(trained, requests))
    with pytest.raises(ConfigError, match=r"reject_lowest.*reject_highest.*found 0\.5 and 0\.5"):
        ask(trained, requests, reject_lowest=0.5, reject_highest=0.5)


def test_blocks_sound_as_the_clips_that_they_make(trained: WaveformModel, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "prompt.wav", 0.4 * np.sin(np.arange(40) / 3), RATE, subtype="FLOAT")
    requests = [ClipRequest("long", 0.6, 1), ClipRequest("short", 0.1, 2), ClipRequest("other", 0.6, 3)]
    requests.append(ClipRequest("more", 0.1, 1, prompt=tmp_path / "prompt.wav"))
    heard: dict[str, list[AudioBlock]] = {}
    counted: list[int] = []

    def hear(block: AudioBlock) -> None:
        heard.setdefault(block.name, []).append(block)
        # A block is heard before it is counted, so that who stops at a count has all of it.
        assert sum(len(one.audio[0]) for blocks in heard.values() for one in blocks) > sum(counted[-1:])

    clips = list(trained.draw(requests, {}, lambda done, total: counted.append(done), hear))
    assert {clip.name for clip in clips} == set(heard) == {"long", "short", "other", "more"}
    for clip, alone in zip(clips, ask(trained, requests), strict=True):
        blocks = heard[clip.name]
        assert torch.equal(torch.cat([block.audio for block in blocks], dim=1), torch.as_tensor(clip.audio))
        assert torch.equal(torch.as_tensor(alone.audio), torch.as_tensor(clip.audio))
        assert [block.is_last for block in blocks] == [False] * (len(blocks) - 1) + [True]
        assert {block.sample_rate for block in blocks} == {RATE}
    assert {name: len(blocks) for name, blocks in heard.items()} == {"short": 1, "more": 2, "long": 3, "other": 3}


def test_rejecting_all_is_refused_before_anything_is_drawn(trained: WaveformModel) -> None:
    with pytest.raises(ConfigError, match=r"reject_lowest.*none of 1 clips"):
        trained.draw([ClipRequest("a", 1e6, 0)], {"reject_lowest": 0.7}, lambda done, total: None, None)


def test_a_head_says_what_a_temperature_may_mean(tones: Path, trained: WaveformModel, tmp_path: Path) -> None:
    assert isinstance(trained, DrawsSamples) and trained.temperature_kinds == ("exact",)
    for bits, kinds in ((BITS, ("heuristic", "exact")), (12, ("heuristic",))):
        codec = WaveformCodec(LinearOptions(bits=bits, sample_rate=RATE))
        data = store_tones(tmp_path / f"{bits}.solfa", codec)
        solver = solver_of(tmp_path / f"{bits}", sashimi_values(data, model__output_head="dml"))
        assert solver.generator().temperature_kinds == kinds


def test_keeping_all_only_sorts() -> None:
    clips = [LikelyClip(GeneratedClip(f"{bits}", np.zeros((1, 1)), RATE), bits) for bits in (2.0, 1.0, 3.0)]
    assert [likely.bits_per_sample for likely in keep_likely(clips, 0.0, 0.0)] == [1.0, 2.0, 3.0]


def test_what_the_model_cannot_be_told_gets_a_sentence(trained: WaveformModel) -> None:
    with pytest.raises(ConfigError, match=r"conditions, found `text`"):
        ask(trained, [ClipRequest("a", 0.1, 0, text="a piano")])
    with pytest.raises(ConfigError, match=r"found `conditions` \(genre\)"):
        ask(trained, [ClipRequest("a", 0.1, 0, conditions={"genre": "jazz"})])
    with pytest.raises(ConfigError, match="top_k"):
        ask(trained, [ClipRequest("a", 0.1, 0)], top_k=5)


def test_a_head_is_written_as_its_name_and_its_number_of_components() -> None:
    def head(**values: Any) -> Any:
        return parse_config(SashimiModelConfig, values, "model").output_head

    assert head() == head(output_head=None) == head(output_head="categorical", n_mixtures=None)
    assert head() == CategoricalHeadConfig()
    assert head(output_head="dml") == DmlHeadConfig(n_mixtures=10)
    assert head(output_head="dml", n_mixtures=4) == DmlHeadConfig(n_mixtures=4)
    assert head(output_head="dml", prediction_order=0) == DmlHeadConfig(n_mixtures=10, prediction_order=0)
    stored = parse_config(SashimiModelConfig, {"output_head": "dml", "n_mixtures": 4}, "model").model_dump()
    assert head(**stored) == DmlHeadConfig(n_mixtures=4)
    assert head(output_head="dml", moment_weight=0.5) == DmlHeadConfig(moment_weight=0.5)
    assert head(output_head="dml", opening_samples=None).opening_samples == 0
    assert head(output_head="dml", opening_samples=99) == DmlHeadConfig(opening_samples=99)
    for name in ("n_mixtures", "prediction_order", "opening_samples", "moment_weight"):
        with pytest.raises(ConfigError, match=rf"{name}: .*4.*categorical"):
            head(**{name: 4})
    with pytest.raises(ConfigError, match=r"output_head\.kind: .*, found 'dmll', did you mean 'dml'"):
        head(output_head="dmll")


def test_the_grid_of_the_dataset_is_that_of_the_model(tones: Path, tmp_path: Path) -> None:
    data = store_tones(tmp_path / "linear.solfa", WaveformCodec(LinearOptions(bits=9, sample_rate=RATE)))
    head = {"model__output_head": "dml", "model__prediction_order": 0}
    solver = solver_of(tmp_path / "xp", sashimi_values(data, **head))
    assert (solver.head.num_classes, solver.network.num_classes, solver.codec.grid.kind) == (512, 512, "linear")
    assert solver.run_stage("valid")["bits_per_sample"] == pytest.approx(9, abs=1.5)


def test_data_that_are_not_mono_waveforms_get_a_sentence(tones: Path, tmp_path: Path) -> None:
    stereo = WaveformCodec(MulawOptions(bits=BITS, sample_rate=RATE, num_channels=2))
    with pytest.raises(ConfigError, match=r"mono.*found 2.*num_channels=1"):
        solver_of(tmp_path, sashimi_values(store_tones(tmp_path / "stereo.solfa", stereo)))
    with pytest.raises(ConfigError, match=r"dataset\.mode: packed"):
        solver_of(tmp_path, sashimi_values(tones, dataset__mode={"kind": "pack"}))
    with pytest.raises(ConfigError, match=r"num_classes: .*64, found 256"):
        solver_of(tmp_path, sashimi_values(tones, model__num_classes=256))
    with pytest.raises(ConfigError, match=r"mulaw.*found solfa_24khz"):
        waveform_codec({"array": {}, "codec": "solfa_24khz"})


def test_a_checkpoint_of_state_spaces_is_a_start(tones: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    net = Original(bits=BITS, unet=True)
    torch.save({"state_dict": random_state(net), "hyper_parameters": net.settings}, tmp_path / "loss.ckpt")
    values = sashimi_values(tones, continue_from=str(tmp_path / "loss.ckpt"), optim__epochs=1, checkpoint__minutes=None)
    with pytest.raises(ConfigError, match=r"another network.* add model\.dim=4 .*model\.pool=\[2,3\]") as error:
        solver_of(tmp_path / "other", values).run()
    overrides = [word.removeprefix("model.").split("=") for word in str(error.value).partition(" add ")[2].split()]
    values["model"] |= {name: yaml.safe_load(value) for name, value in overrides}
    solver = solver_of(tmp_path / "xp", values)
    with caplog.at_level("INFO"):
        solver.restore()
    assert f"all {len(random_state(net))} tensors" in caplog.text
    classes = torch.randint(0, 1 << BITS, (1, 36))
    with torch.no_grad():
        assert (solver.network(classes) - Network(net, random_state(net))(classes)).abs().max() < 1e-4
    wrong = {**values, "continue_keep": ["optimizer"]}
    with pytest.raises(ConfigError, match="continue_keep"):
        solver_of(tmp_path / "keep", wrong).run()
    with pytest.raises(ConfigError, match=r"continue_from: .*nowhere\.ckpt, which does not exist"):
        solver_of(tmp_path / "nowhere", {**values, "continue_from": "nowhere.ckpt"}).run()


def test_a_checkpoint_of_another_grid_is_refused(tones: Path, tmp_path: Path) -> None:
    net = Original(bits=4)
    torch.save({"state_dict": random_state(net), "hyper_parameters": net.settings}, tmp_path / "loss.ckpt")
    with pytest.raises(ConfigError, match=r"mulaw classes of 4 bits, found mulaw of 6; .*dset\.train\.codec"):
        solver_of(tmp_path / "xp", sashimi_values(tones, continue_from=str(tmp_path / "loss.ckpt"))).run()
