"""Distances of sounds grow with what is wrong with them, and are no distance where nothing is."""

from importlib.util import find_spec

import numpy as np
import pytest

from solfa.codecs.embedders.catalogue import load_embedder
from solfa.evaluate.clip_judge import embed_clips
from solfa.evaluate.measures import compare, measure_fad, measure_kad, measure_kld
from tests.evaluate.sounds import clips, in_mulaw, low_passed, with_noise

WORSE = {
    "noise": [with_noise(level) for level in (0.001, 0.01, 0.1)],
    "mu-law": [in_mulaw(bits) for bits in (8, 5, 3)],
    "low-pass": [low_passed(hz) for hz in (6_000, 2_500, 800)],
}


@pytest.fixture(scope="module")
def heard():
    """Embeddings by `mel` of real melodies and of others."""
    mel = load_embedder("mel")
    return {"embedder": mel, "real": embed_clips(clips(range(16)), mel), "same": embed_clips(clips(range(50, 66)), mel)}


@pytest.mark.parametrize("kind", WORSE)
def test_kad_is_monotone_in_what_is_wrong(heard, kind):
    changed = [embed_clips(clips(range(50, 66), change), heard["embedder"]) for change in WORSE[kind]]
    values = [measure_kad(heard["real"], some, None, 0)[0].value for some in (heard["same"], *changed)]
    assert values == sorted(values) and values[-1] > values[0] + 5


def test_melodies_of_one_kind_are_no_distance_apart_and_noise_is(heard):
    noise = embed_clips(
        clips(range(4), lambda sound: np.random.default_rng(1).normal(size=sound.shape) / 10), heard["embedder"]
    )
    found, sums = measure_kad(heard["real"], heard["same"], noise, 0)
    assert found.interval.low <= 0 <= found.interval.high
    assert abs(found.floor) < 5 < found.ceiling and found.num_recordings == found.num_reference == 16
    assert found.facts["num_windows"] == 48 and sums.closeness().shape == (16,)
    frechet = measure_fad(heard["real"], heard["same"], None, 0)
    assert frechet.value > 0 and frechet.interval.low < frechet.value


def test_two_runs_are_compared_by_the_interval_of_their_difference(heard):
    """The reference is drawn for both at once, so that its luck cancels out: much surer than two intervals."""
    worse = embed_clips(clips(range(50, 66), with_noise(0.003)), heard["embedder"])
    one, other = (measure_kad(heard["real"], some, None, 0)[0] for some in (heard["same"], worse))
    assert compare(one, other).verdict == "better" and compare(other, one).verdict == "worse"
    assert compare(one, one).verdict == "cannot tell" and compare(one, one).value == 0
    found = compare(one, other)
    apart = np.hypot(one.interval.high - one.interval.low, other.interval.high - other.interval.low)
    assert found.interval.high - found.interval.low < apart


@pytest.mark.slow
@pytest.mark.weights
def test_musicnn_hears_degradation_and_which_clip_a_clip_was_made_from():
    """With the weights of its package: KAD grows, and shuffled pairs have a larger divergence of tags."""
    if find_spec("musicnn") is None:
        pytest.skip("the package musicnn, which holds the weights, is not installed")
    musicnn = load_embedder("musicnn")
    real, same = (embed_clips(clips(seeds), musicnn) for seeds in (range(12), range(50, 62)))
    for changes in WORSE.values():
        changed = [embed_clips(clips(range(50, 62), change), musicnn) for change in changes[1:]]
        values = [measure_kad(real, some, None, 0)[0].value for some in (same, *changed)]
        assert values == sorted(values) and values[-1] > values[0]
    copies = embed_clips(clips(range(12), with_noise(0.001)), musicnn)
    shuffled = copies.select([*range(1, 12), 0])
    one, other = (measure_kld(real, some, None, 0)[0] for some in (copies, shuffled))
    assert other.value > 2 * one.value and compare(one, other).verdict == "better"
