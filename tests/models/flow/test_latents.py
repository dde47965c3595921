"""The scale of latents, and draws from their posterior."""

import numpy as np
import pytest
import torch

from solfa.errors import ConfigError
from solfa.models.flow.latents import channel_scale, posterior_draw


def test_the_scale_is_that_of_all_frames_together_and_each_channel_has_its_own():
    rng = np.random.default_rng(0)
    clips = [rng.normal([3, -100], [0.5, 20], (count, 2)).astype(np.float16) for count in (7, 0, 1, 300)]
    frames = np.concatenate(clips).astype(np.float64)
    mean, std = channel_scale(clips, 2)
    assert np.allclose(mean, frames.mean(axis=0), rtol=1e-12)
    assert np.allclose(std, frames.std(axis=0), rtol=1e-12)
    only_first = channel_scale(clips, 1)
    assert torch.equal(only_first.mean, mean[:1])


def test_a_channel_that_never_changes_keeps_its_size_and_one_that_is_not_finite_is_refused():
    assert channel_scale([np.full((4, 1), 2.0)], 1).std.tolist() == [1.0]
    with pytest.raises(ConfigError, match="finite"):
        channel_scale([np.array([[1.0], [np.nan]])], 1)


def test_draws_have_the_mean_and_deviation_of_the_posterior():
    stored = torch.tensor([[[1.5, -2.0, -1.0, 3.0]]]).expand(1, 50_000, 4)
    noise = torch.randn(1, 50_000, 2, generator=torch.Generator().manual_seed(0))
    drawn = posterior_draw(stored, noise)
    expected = torch.nn.functional.softplus(torch.tensor([-1.0, 3.0])) + 1e-4
    # Five standard errors.
    assert torch.allclose(drawn[0].std(dim=0), expected, rtol=5 / (2 * 50_000) ** 0.5)
    assert torch.allclose(posterior_draw(stored, torch.zeros_like(noise))[0, 0], torch.tensor([1.5, -2.0]))
