"""Metrics equal their definitions, element by element, and say something sensible at the edges."""

import math

import numpy as np
import pytest
import torch

from solfa.evaluate import reconstruction
from solfa.ops.audio_metrics import batch_mel_distance_db, codebook_perplexity, codebook_usage, count_codes, si_sdr


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return 0.3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def si_sdr_slowly(estimate: np.ndarray, target: np.ndarray) -> float:
    estimate, target = estimate.astype(np.float64), target.astype(np.float64)
    scaled = (estimate @ target) / (target @ target) * target
    return float(10 * np.log10((scaled @ scaled) / ((scaled - estimate) @ (scaled - estimate))))


@pytest.mark.parametrize("level", [1e-3, 0.1, 3.0, 1e3])
def test_si_sdr_equals_its_definition(level):
    target = noise(2, 3, 400, seed=1)
    estimate = 0.7 * target + level * noise(2, 3, 400, seed=2)
    found = si_sdr(estimate, target)
    assert found.shape == (2, 3)
    for clip in range(2):
        for channel in range(3):
            expected = si_sdr_slowly(estimate[clip, channel].numpy(), target[clip, channel].numpy())
            assert found[clip, channel].item() == pytest.approx(expected, abs=1e-4)


def test_si_sdr_of_known_noise_is_its_level():
    target, error = torch.zeros(100), torch.zeros(100)
    target[:50], error[50:] = 1.0, 0.1
    assert si_sdr(target + error, target).item() == pytest.approx(20.0, abs=1e-4)


@pytest.mark.parametrize("scale", [-2.0, 1e-4, 0.5, 1e4])
def test_si_sdr_ignores_the_scale_of_both_sounds(scale):
    target = noise(3, 500, seed=1)
    estimate = target + 0.2 * noise(3, 500, seed=2)
    torch.testing.assert_close(si_sdr(scale * estimate, target), si_sdr(estimate, target), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(si_sdr(estimate, scale * target), si_sdr(estimate, target), rtol=1e-4, atol=1e-4)


def test_si_sdr_of_a_scaled_target_is_at_the_limit():
    target = noise(2, 500)
    assert si_sdr(0.25 * target, target).tolist() == [100.0, 100.0]
    assert (si_sdr(0.25 * target, target, limit_db=math.inf) > 130).all()


def test_si_sdr_of_silence_is_the_lower_limit_and_against_silence_is_undefined():
    sound, silence = noise(1, 500), torch.zeros(1, 500)
    assert si_sdr(silence, sound).tolist() == [-100.0]
    assert si_sdr(torch.cat([sound, silence]), torch.zeros(2, 500)).isnan().all()
    orthogonal = si_sdr(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0]))
    assert orthogonal.item() == -100.0


def test_mel_distance_is_that_of_the_report():
    target = noise(2, 2, 9_000, seed=1)
    estimate = target + 0.05 * noise(2, 2, 9_000, seed=2)
    estimate[1, :, 4_000:] = 0.0
    found = batch_mel_distance_db(estimate, target, 16_000)
    for clip in range(2):
        expected = reconstruction.mel_distance_db(target[clip].numpy(), estimate[clip].numpy(), 16_000)
        assert found[clip].item() == pytest.approx(expected, rel=1e-3)


def test_mel_distance_is_the_change_of_level_and_zero_for_equal_sounds():
    target = noise(2, 1, 9_000)
    assert batch_mel_distance_db(target, target, 16_000).tolist() == [0.0, 0.0]
    assert batch_mel_distance_db(0.5 * target, target, 16_000).tolist() == pytest.approx([6.0206] * 2, abs=0.01)
    silence = torch.zeros(1, 1, 50)
    assert batch_mel_distance_db(silence, silence, 16_000).tolist() == [0.0]


def test_counts_usage_and_perplexity_equal_slow_counts():
    codes = torch.randint(0, 6, (3, 11, 2), generator=torch.Generator().manual_seed(0))
    codes[..., 1] %= 3
    codes[0, :, 1] = -1
    counts = count_codes(codes.to(torch.int32), 8)
    for codebook in range(2):
        slow = [0] * 8
        for code in codes[..., codebook].flatten().tolist():
            if code >= 0:
                slow[code] += 1
        assert counts[codebook].tolist() == slow
        assert codebook_usage(counts)[codebook].item() == pytest.approx(sum(count > 0 for count in slow) / 8)
        entropy = -sum(count / sum(slow) * math.log(count / sum(slow)) for count in slow if count)
        assert codebook_perplexity(counts)[codebook].item() == pytest.approx(math.exp(entropy), rel=1e-6)


def test_counts_of_parts_add_up():
    codes = torch.randint(0, 16, (4, 30, 3))
    assert torch.equal(count_codes(codes[:1], 16) + count_codes(codes[1:], 16), count_codes(codes, 16))


def test_perplexity_is_the_number_of_equally_used_entries():
    codes = torch.arange(20).remainder(5)[None, :, None]
    assert codebook_perplexity(count_codes(codes, 64)).tolist() == pytest.approx([5.0])
    one_code = torch.full((1, 20, 1), 7)
    assert codebook_perplexity(count_codes(one_code, 64)).tolist() == [1.0]
    nothing = count_codes(torch.zeros(0, 5, 2, dtype=torch.int64), 64)
    assert codebook_usage(nothing).tolist() == [0.0, 0.0] and codebook_perplexity(nothing).tolist() == [1.0, 1.0]


def test_codes_outside_the_codebook_are_refused():
    with pytest.raises(ValueError, match=r"codebook size 8, found 8"):
        count_codes(torch.tensor([[[0, 8]]]), 8)
