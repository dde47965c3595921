"""The comparison of heads scores what it says: the same bits by either way, probabilities that sum to one."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from benchmarks.waveform_heads.anchors import (
    FRAME,
    adaptive_prediction,
    flac_bits,
    global_predictor,
    recent_levels,
    unigram_bits,
)
from benchmarks.waveform_heads.contenders import (
    CONTENDERS,
    LINEAR8,
    LINEAR12,
    LINEAR16,
    MULAW8,
    OTHER_INPUTS,
    Contender,
    HeadConfig,
    WaveformModel,
)
from benchmarks.waveform_heads.heads import BytesHeadConfig, PathCategoricalHeadConfig
from benchmarks.waveform_heads.recordings import Recorded, Split, held_out_excerpts, read_split, training_crops
from benchmarks.waveform_heads.report import curves, differences, markdown, paired_interval
from benchmarks.waveform_heads.scoring import COMMON, OWN, cell_nats, score
from benchmarks.waveform_heads.training import Settings, is_due, own_levels, run
from solfa.errors import ConfigError
from solfa.models.sashimi.config import DmlHeadConfig
from solfa.models.sashimi.heads import DmlHead
from solfa.models.sashimi.network import SashimiConfig
from solfa.ops.class_grid import Grid, LinearGrid

TINY = SashimiConfig(dim=4, n_layers=1, d_state=4)
SETTINGS = Settings(
    updates=4, num_clips=1, num_samples=256, dim=4, layers=1, d_state=4, lr=4e-3, dynamics_lr=1e-3, warmup_updates=1
)


def noise(*shape: int, level: float = 0.2) -> Tensor:
    return (level * torch.randn(*shape, generator=torch.Generator().manual_seed(0))).clamp(-1, 1)


def model_of(contender: Contender) -> WaveformModel:
    model = WaveformModel(contender, TINY, seed=0)
    model.fit([noise(400)])
    # So that the mixture is none of a symmetric, untrained head.
    torch.nn.init.normal_(model.network.projection.weight, std=0.3)
    return model


def write_recordings(folder: Path, count: int, num_samples: int, sample_rate: int = 16_000) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        audio = noise(num_samples).numpy() * (number + 1) / count
        soundfile.write(folder / f"{number}.wav", audio, sample_rate)


@pytest.mark.parametrize("head", [DmlHeadConfig(prediction_order=0), DmlHeadConfig()], ids=["plain", "path"])
@pytest.mark.parametrize("grid", [LINEAR8, MULAW8], ids=["linear", "mulaw"])
def test_a_mixture_has_the_same_bits_on_its_own_grid_and_on_the_common_cells_that_equal_it(
    grid: Grid, head: DmlHeadConfig
) -> None:
    bits = score(model_of(Contender(grid, head)), noise(3, 320))
    assert bits[f"{grid.kind}8"] == pytest.approx(bits[OWN], abs=1e-5)


@pytest.mark.parametrize("contender", [one for one in CONTENDERS if one.head.kind == "dml"], ids=lambda one: one.name)
@pytest.mark.parametrize("cells", COMMON.values(), ids=COMMON.keys())
def test_the_cells_of_a_grid_share_all_the_probability(contender: Contender, cells: Grid) -> None:
    model = model_of(contender)
    outputs = model(model.grid.to_classes(noise(1, 16)))[0, -1].detach()
    assert isinstance(model.head, DmlHead)
    mixture = type(model.head.mixture(outputs))(
        *(part.expand(cells.num_classes, -1) for part in model.head.mixture(outputs))
    )
    line = LINEAR16 if model.head.is_centred else model.grid
    nats = cell_nats(mixture, line, cells, torch.arange(cells.num_classes))
    assert float((-nats).exp().sum()) == pytest.approx(1, abs=1e-9)


def test_a_categorical_head_is_scored_on_its_own_grid_alone() -> None:
    categorical = next(one for one in CONTENDERS if one.name == "categorical-mulaw8")
    bits = score(model_of(categorical), noise(2, 64))
    assert set(bits) == {OWN, "mulaw8"}
    assert bits["mulaw8"] == pytest.approx(bits[OWN], abs=1e-6)


def test_all_contenders_start_with_the_same_layers() -> None:
    first, *others = (WaveformModel(contender, TINY, seed=3) for contender in (*CONTENDERS, *OTHER_INPUTS))
    for other in others:
        for ours, theirs in zip(first.network.tier.parameters(), other.network.tier.parameters(), strict=True):
            assert torch.equal(ours, theirs)
        assert other.parameter_counts()["backbone"] == first.parameter_counts()["backbone"]


@pytest.mark.parametrize("head", [PathCategoricalHeadConfig(), BytesHeadConfig()], ids=lambda head: head.kind)
def test_heads_of_the_comparison_are_distributions_and_are_drawn_from_as_such(head: HeadConfig) -> None:
    grid = LinearGrid(bits=9) if head.kind == "bytes" else LINEAR8
    model = model_of(Contender(grid, head))
    outputs = model(grid.to_classes(noise(1, 16)))[:, -1:].detach()
    pmf, every = model.head.pmf(outputs)[0, 0].detach(), torch.arange(grid.num_classes)
    assert float(pmf.sum()) == pytest.approx(1, abs=1e-5)
    nats = model.head.log_prob(outputs.expand(1, len(every), -1), every[None])[0].detach()
    assert torch.allclose(nats.exp(), pmf, atol=1e-6)
    uniforms = torch.rand(4000, model.head.num_uniforms, generator=torch.Generator().manual_seed(0))
    drawn = model.head.draw_with(outputs[0].expand(4000, -1), uniforms)
    # The mean of 4,000 draws is within five standard errors of that of the distribution.
    mean, spread = float((pmf * every).sum()), float((pmf * every**2).sum())
    assert abs(float(drawn.double().mean()) - mean) < 5 * ((spread - mean**2) / 4000) ** 0.5
    assert -float(nats[drawn].mean()) < -float(nats.mean())


def test_models_predict_each_class_from_those_before_it() -> None:
    model = model_of(Contender(LINEAR16, DmlHeadConfig()))
    classes = LINEAR16.to_classes(noise(1, 40))
    changed = classes.clone()
    changed[0, 20] = 0
    difference = (model(classes) - model(changed)).detach().abs().amax(dim=-1)[0]
    assert float(difference[:21].max()) < 1e-6 < float(difference[21])


def test_recordings_are_split_by_name_and_short_ones_left_out(tmp_path: Path) -> None:
    write_recordings(tmp_path / "a", count=30, num_samples=300)
    write_recordings(tmp_path / "b", count=2, num_samples=200)
    split = read_split([tmp_path / "a", tmp_path / "b"], 16_000, min_samples=256)
    names = [recording.name for recording in (*split.train, *split.held_out)]
    assert len(names) == len(set(names)) == 28
    again = read_split([tmp_path / "a"], 16_000, min_samples=256)
    assert {recording.name for recording in split.held_out} <= {recording.name for recording in again.held_out}


def test_a_recording_of_a_lower_rate_is_refused(tmp_path: Path) -> None:
    write_recordings(tmp_path / "a", count=1, num_samples=300, sample_rate=8_000)
    with pytest.raises(ConfigError, match="--sample-rate 8000"):
        read_split([tmp_path / "a"], 16_000, min_samples=256)


def test_excerpts_do_not_overlap_and_know_their_recordings() -> None:
    recordings = [Recorded("long", torch.arange(1000.0)), Recorded("short", torch.arange(300.0))]
    excerpts = held_out_excerpts(recordings, per_recording=3, num_samples=256)
    assert excerpts.recordings == (0, 0, 0, 1)
    assert len(torch.unique(excerpts.audio[:3])) == 3 * 256


def test_crops_depend_on_the_update_and_nothing_else() -> None:
    recordings = [Recorded(str(number), noise(400) + number) for number in range(5)]
    first, again, later = (training_crops(recordings, 0, update, 4, 64) for update in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, later)


def test_flac_keeps_every_class() -> None:
    classes = MULAW8.to_classes(noise(1, 4096))
    assert 4 < flac_bits(classes, MULAW8, 16_000) < 8.5
    fine = flac_bits(LINEAR16.to_classes(noise(1, 4096)), LINEAR16, 16_000)
    # Four bits less of precision are four bits less to write: the zeros below them are not written.
    assert flac_bits(LINEAR12.to_classes(noise(1, 4096)), LINEAR12, 16_000) == pytest.approx(fine - 4, abs=0.1)


def test_unigram_bits_of_equal_frequencies_are_those_of_the_grid() -> None:
    every = LINEAR8.to_audio(torch.arange(256))
    assert unigram_bits(every, every, LINEAR8) == pytest.approx(8)


def test_a_predictor_finds_the_filter_that_made_the_sound() -> None:
    source = np.random.default_rng(0).normal(size=(2, 4096)) * 0.01
    audio = np.zeros_like(source)
    for step in range(2, source.shape[1]):
        audio[:, step] = 1.6 * audio[:, step - 1] - 0.8 * audio[:, step - 2] + source[:, step]
    assert global_predictor(audio)[:3] == pytest.approx([1.6, -0.8, 0], abs=0.03)
    adaptive = adaptive_prediction(audio, noise=1e-6)
    assert np.std((audio - adaptive)[:, 4 * FRAME :]) < 1.15 * np.std(source)


def test_predictions_and_levels_know_nothing_of_the_present() -> None:
    audio = noise(1, 4 * FRAME).double().numpy()
    changed = audio.copy()
    changed[0, 700] += 0.5
    predicted = adaptive_prediction(audio, 1e-4) - adaptive_prediction(changed, 1e-4)
    levels = recent_levels(audio, 1e-4)[..., 1] - recent_levels(changed, 1e-4)[..., 1]
    for difference in (np.abs(predicted)[0], np.abs(levels)[0]):
        assert difference[:701].max() < 1e-12 < difference[701]


def test_an_interval_is_over_recordings_and_not_over_excerpts() -> None:
    centre, half = paired_interval([1, 1, 3, 3], [0, 0, 0, 0], [0, 0, 1, 1])
    assert centre == 2
    assert half == pytest.approx(1.96)


def test_grids_finer_than_the_common_cells_are_compared_on_their_own() -> None:
    runs = [
        {"title": title, "grid": grid, "seed": 0, "bits_per_excerpt": {OWN: bits}}
        for title, grid, bits in (
            ("a", "linear16", [9.0, 8.0]),
            ("b", "linear16", [9.5, 9.0]),
            ("c", "linear12", [1, 1]),
        )
    ]
    (row,) = differences(runs, [0, 1])
    assert row.startswith("| 16-bit linear | 0 | a | b | -0.750 ± ")


def test_a_finished_run_is_read_and_not_made_again(tmp_path: Path) -> None:
    write_recordings(tmp_path / "audio", count=30, num_samples=600)
    split = read_split([tmp_path / "audio"], 16_000, min_samples=256)
    excerpts = held_out_excerpts(split.held_out, 2, 256)
    lines: list[str] = []
    pair = (CONTENDERS[0], Contender(MULAW8, DmlHeadConfig()))
    results = [run(one, 0, SETTINGS, split, excerpts, tmp_path, lines.append) for one in pair]
    told = len(lines)
    assert run(CONTENDERS[0], 0, SETTINGS, split, excerpts, tmp_path, lines.append) == results[0]
    assert len(lines) == told > 0
    with pytest.raises(ConfigError, match="another --out"):
        run(CONTENDERS[0], 0, Settings(**{**SETTINGS.__dict__, "lr": 1e-3}), split, excerpts, tmp_path, lines.append)
    anchors = {"flac": {"mulaw8": {OWN: 5.0}, "linear8": {OWN: 4.0}}}
    table = markdown(results, anchors, excerpts.recordings)
    assert f"{results[1]['bits']['linear8']:.3f}" in table
    assert "| 8-bit mu-law cells | 0 | categorical, 8-bit mu-law | mixture, linear path, 8-bit mu-law |" in table
    pictured = ElementTree.fromstring(str(curves(results)))
    assert len(pictured.findall(".//{http://www.w3.org/2000/svg}polyline")) == 6


def test_the_weight_of_moments_is_the_librarys_unless_another_is_given(tmp_path: Path) -> None:
    write_recordings(tmp_path / "audio", count=30, num_samples=600)
    split = read_split([tmp_path / "audio"], 16_000, min_samples=256)
    excerpts = held_out_excerpts(split.held_out, 1, 256)

    def bits(weight: float | None, head: HeadConfig) -> object:
        settings = Settings(**{**SETTINGS.__dict__, "moment_weight": weight})
        contender = Contender(LINEAR8, head)
        return run(contender, 0, settings, split, excerpts, tmp_path / f"{weight}", lambda line: None)["bits"]

    assert bits(3.0, DmlHeadConfig()) == bits(None, DmlHeadConfig()) != bits(0.3, DmlHeadConfig())
    with pytest.raises(ConfigError, match="--moment-weight: expected nothing but mixtures with a linear path"):
        bits(1.0, PathCategoricalHeadConfig())


def test_every_fourth_update_runs_freely_if_that_is_asked_for() -> None:
    weighted = Settings(**{**SETTINGS.__dict__, "free_running": 1.0})
    assert [update for update in range(60) if is_due(weighted, update)] == [52, 56]
    assert not any(is_due(SETTINGS, update) for update in range(60))


def test_levels_in_own_draws_have_a_gradient_and_are_about_amplitudes() -> None:
    split = Split((Recorded("short", noise(500)), Recorded("long", noise(900))), (), 16_000)
    model = model_of(Contender(LINEAR16, DmlHeadConfig()))
    score = own_levels(model, 0, 52, SETTINGS, split)
    torch.autograd.backward(score)
    assert float(score.detach()) > 0 and model.network.projection.weight.grad is not None
    assert float(own_levels(model, 0, 52, SETTINGS, split).detach()) == float(score.detach())
    with pytest.raises(ConfigError, match="--free-running: expected nothing but mixtures with a linear path"):
        own_levels(model_of(Contender(LINEAR8, DmlHeadConfig(prediction_order=0))), 0, 52, SETTINGS, split)
