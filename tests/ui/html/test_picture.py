"""Pictures show what they are made of, in colours that rise in lightness."""

import numpy as np
import pytest

from solfa.ui.html.colours import colour_map
from solfa.ui.html.picture import (
    NUM_BANDS,
    codes_png,
    frequency_ticks,
    latents_png,
    mean_columns,
    spectrogram_db,
    spectrogram_png,
    time_ticks,
)
from solfa.ui.html.png import encode_png


def lightness(picture: np.ndarray) -> np.ndarray:
    linear = (picture / 255.0) ** 2.2
    return linear @ np.array([0.2126, 0.7152, 0.0722])


def test_a_png_decodes_to_the_colours_it_was_given(read_png):
    rng = np.random.default_rng(0)
    indices, palette = rng.integers(0, 5, (7, 11)).astype(np.uint8), rng.integers(0, 256, (5, 3)).astype(np.uint8)
    assert np.array_equal(read_png(encode_png(indices, palette)), palette[indices])


def test_colours_grow_lighter_from_first_to_last():
    luminance = lightness(colour_map(256))
    assert (np.diff(luminance) > -1e-4).all()
    assert luminance[0] < 0.01 and luminance[-1] > 0.8
    # Equal steps of level look equal: the cube root of the luminance is close to a straight line.
    perceived = np.cbrt(luminance)
    straight = np.linspace(perceived[0], perceived[-1], 256)
    assert np.abs(perceived - straight).max() < 0.08


@pytest.mark.parametrize("frequency_hz", [300.0, 1_000.0, 5_000.0])
def test_a_sine_is_the_brightest_row_at_the_height_of_its_tick(frequency_hz, read_png):
    sample_rate = 24_000
    time = np.arange(sample_rate) / sample_rate
    levels = spectrogram_db(np.sin(2 * np.pi * frequency_hz * time)[None].astype(np.float32), sample_rate)
    picture = lightness(read_png(spectrogram_png(levels, float(levels.max()))))
    row = picture[:, picture.shape[1] // 2].argmax()
    height = 1 - (row + 0.5) / NUM_BANDS
    mel = np.log10(1 + frequency_hz / 700) / np.log10(1 + sample_rate / 2 / 700)
    assert height == pytest.approx(mel, abs=0.02)
    labelled = dict(frequency_ticks(sample_rate))
    if f"{frequency_hz / 1000:g}" in labelled:
        assert labelled[f"{frequency_hz / 1000:g}"] == pytest.approx(height, abs=0.02)


def test_time_runs_to_the_right(read_png):
    audio = np.zeros((2, 16_000), np.float32)
    audio[:, 12_000:] = np.random.default_rng(0).standard_normal(4_000)
    levels = spectrogram_db(audio, 16_000)
    picture = lightness(read_png(spectrogram_png(levels, float(levels.max())))).mean(axis=0)
    assert picture[: int(0.7 * len(picture))].max() < picture[int(0.8 * len(picture)) :].min()


@pytest.mark.parametrize("num_samples", [1, 500, 16_000, 16_000 * 60])
def test_a_spectrogram_is_never_wider_than_asked(num_samples):
    levels = spectrogram_db(np.full((1, num_samples), 0.1, np.float32), 16_000, width=200)
    assert levels.shape[0] == NUM_BANDS and 1 <= levels.shape[1] <= 200
    assert np.isfinite(levels).all()


def test_samples_that_are_not_numbers_still_give_a_picture():
    levels = spectrogram_db(np.array([[np.nan, np.inf, -np.inf, 0.5] * 100], np.float32), 16_000)
    assert np.isfinite(levels).all()


def test_codes_are_drawn_a_row_per_codebook_coloured_by_entry(read_png):
    codes = np.array([[0, 9], [5, 9], [9, 0]], np.uint16)
    palette = colour_map(64)
    expected = palette[np.round(np.array([[0, 5, 9], [9, 9, 0]]) / 9 * 63).astype(int)]
    assert np.array_equal(read_png(codes_png(codes, 10)), expected)


def test_one_codebook_is_drawn_as_density_with_entry_zero_at_the_bottom(read_png):
    codes = np.concatenate([np.zeros(1_000), np.full(1_000, 255)]).astype(np.uint16)[:, None]
    picture = lightness(read_png(codes_png(codes, 256, width=10)))
    assert picture.shape == (64, 10)
    assert (picture[-1, :5] > 0.5).all() and (picture[0, 5:] > 0.5).all()
    assert (picture[0, :5] < 0.1).all() and (picture[-1, 5:] < 0.1).all()


def test_latents_are_drawn_a_row_per_channel_and_survive_what_is_not_a_number(read_png):
    latents = np.tile(np.array([-1.0, 0.0, 1.0], np.float16), (900, 1))
    latents[0, 0] = np.nan
    picture = lightness(read_png(latents_png(latents, width=300)))
    assert picture.shape == (3, 300)
    assert picture[0].mean() < picture[1].mean() < picture[2].mean()


def test_columns_are_averaged_into_fewer():
    picture = np.arange(10.0)[None]
    assert mean_columns(picture, 5).tolist() == [[0.5, 2.5, 4.5, 6.5, 8.5]]
    assert mean_columns(picture, 20) is picture


@pytest.mark.parametrize("seconds", [0.03, 0.5, 1.9, 15.0, 4_000.0])
def test_time_ticks_are_few_round_and_inside(seconds):
    ticks = time_ticks(seconds)
    assert 2 <= len(ticks) <= 7
    for label, place in ticks:
        assert 0 <= place <= 1 + 1e-9
        assert float(label) == pytest.approx(place * seconds, rel=1e-4)


@pytest.mark.parametrize("sample_rate", [8_000, 24_000, 48_000])
def test_frequency_ticks_do_not_touch(sample_rate):
    heights = [height for _, height in frequency_ticks(sample_rate)]
    assert len(heights) >= 3 and min(np.diff(heights)) > 0.08 and heights[-1] < 1
