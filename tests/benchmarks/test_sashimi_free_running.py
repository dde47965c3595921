"""Free running: what is measured is what a model that is known does."""

import math

import pytest
import torch

from benchmarks.waveform_heads.contenders import LINEAR8, Contender, WaveformModel
from benchmarks.waveform_heads.free_running import FreeRun, continuations, outermost, run_freely
from benchmarks.waveform_heads.recordings import Excerpts, Recorded
from solfa.errors import ConfigError
from solfa.models import CategoricalHeadConfig, SashimiConfig

RATE, PROMPT = 100, 20


def blind_model() -> WaveformModel:
    """Make a network that gives every class the same probability, whatever it reads."""
    model = WaveformModel(Contender(LINEAR8, CategoricalHeadConfig()), SashimiConfig(dim=4, n_layers=1, d_state=4), 0)
    torch.nn.init.zeros_(model.network.projection.weight)
    return model


def test_a_blind_model_is_as_loud_as_noise_and_expects_eight_bits_of_everything() -> None:
    model = blind_model()
    audio = 0.1 * torch.sin(torch.arange(220.0) / 3).repeat(8, 1)
    run = run_freely(model.network, model.head, model.grid, Excerpts(audio, tuple(range(8))), PROMPT, RATE)
    # Uniform classes have a mean square of 1/3 (that of the grid is 0.4 % more), the tone one of 0.005.
    assert run.louder_db == pytest.approx(10 * math.log10(1 / 3 / 0.005), abs=0.5)
    assert len(run.by_second_db) == 2 and run.half_db < 1
    assert run.own_bits == pytest.approx(8, abs=1e-5) and run.real_bits == pytest.approx(8, abs=1e-5)
    assert run.clipped == pytest.approx(2 / 256, abs=0.01) and run.clipped_really == 0
    assert run.misses == ["loudness", "clipping"]
    # All clips cost the same, so which were chosen makes no difference.
    assert run.half_bits < 1e-5


def test_the_interval_is_over_recordings_and_shrinks_with_their_number() -> None:
    model, generator = blind_model(), torch.Generator().manual_seed(0)
    levels = 0.05 + 0.2 * torch.rand(64, 1, generator=generator)
    audio = levels * torch.randn(64, 60, generator=generator).clamp(-2, 2)

    def half_db(num_clips: int, recordings: tuple[int, ...]) -> float:
        clips = Excerpts(audio[:num_clips], recordings)
        return run_freely(model.network, model.head, model.grid, clips, PROMPT, RATE).half_db

    many = half_db(64, tuple(range(64)))
    # A quarter as many recordings have twice the error, whatever is cut from each.
    assert half_db(16, tuple(range(16))) == pytest.approx(2 * many, rel=0.5)
    assert half_db(1, (0,)) == math.inf
    twice = Excerpts(audio[:16].repeat(4, 1), tuple(range(16)) * 4)
    four_of_each = run_freely(model.network, model.head, model.grid, twice, PROMPT, RATE).half_db
    assert four_of_each > 1.5 * many


def test_goals_are_relative_to_the_recordings() -> None:
    met = FreeRun(-1.4, 0.1, (), clipped=0.0109, clipped_really=0.01, own_bits=9.4, real_bits=9.0, half_bits=1)
    assert met.misses == []
    assert FreeRun(1.6, 0.1, (), 0, 0, own_bits=9.6, real_bits=9.0, half_bits=1).misses == ["loudness", "bits"]


def test_clips_are_the_middles_of_recordings_that_are_long_enough() -> None:
    recordings = [Recorded("short", torch.zeros(5)), Recorded("a", torch.arange(9.0)), Recorded("b", torch.arange(6.0))]
    assert continuations(recordings, 2, 6).audio.tolist() == [[1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5]]
    assert len(continuations(recordings, 1, 6).audio) == 1
    with pytest.raises(ConfigError, match="10 samples"):
        continuations(recordings, 1, 10)


@pytest.mark.parametrize("num_clips", [1, 3, 7, 8, 15])
def test_clips_are_of_as_many_recordings_as_there_are_and_of_none_much_more_often(num_clips: int) -> None:
    recordings = [Recorded(str(number), 100 * number + torch.arange(40.0)) for number in range(7)]
    clips = continuations(recordings, num_clips, 6)
    assert clips.audio[:, 0].div(100).long().tolist() == list(clips.recordings)
    counts = [clips.recordings.count(number) for number in set(clips.recordings)]
    assert len(counts) == min(num_clips, 7) and max(counts) - min(counts) <= 1
    assert len(clips.audio.unique(dim=0)) == num_clips


def test_the_outermost_classes_are_clipped() -> None:
    assert outermost(torch.tensor([0, 255, 128, 1]), LINEAR8) == 0.5
