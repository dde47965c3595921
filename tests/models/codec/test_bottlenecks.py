"""The three bottlenecks behind one interface: shapes, gradients, determinism, and what is special to each."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence

from solfa.errors import ConfigError
from solfa.models.codec.bottlenecks import (
    BottleneckConfig,
    Bottlenecked,
    Fsq,
    Gaussian,
    GaussianBottleneck,
    Rvq,
    kl_to_standard_normal,
)
from tests.models.codec.tiny_codec import BOTTLENECKS

DISCRETE = BOTTLENECKS[:3]


def prepared(config: BottleneckConfig, dim: int = 6) -> Any:
    """A bottleneck that has seen data, in eval mode."""
    bottleneck = config.build(dim)
    with torch.no_grad():
        for _ in range(3):
            bottleneck(torch.randn(4, dim, 30))
    return bottleneck.eval()


@pytest.mark.parametrize("config", BOTTLENECKS)
@pytest.mark.parametrize("training", [True, False])
def test_forward_keeps_the_shape_and_gradients_reach_the_latents(config: BottleneckConfig, training: bool) -> None:
    bottleneck = prepared(config).train(training)
    latents = torch.randn(2, 6, 9, requires_grad=True)
    passed: Bottlenecked = bottleneck(latents)
    assert passed.latents.shape == latents.shape and passed.loss.shape == ()
    (passed.latents * torch.randn_like(latents)).sum().backward()
    assert latents.grad is not None and (latents.grad.abs().sum(dim=1) > 0).all()


@pytest.mark.parametrize("config", BOTTLENECKS)
def test_encoding_is_deterministic_in_training_mode_too_and_decodes_to_what_forward_gives(
    config: BottleneckConfig,
) -> None:
    bottleneck = prepared(config)
    latents = torch.randn(2, 6, 9)
    with torch.no_grad():
        array = bottleneck.encode(latents)
        assert torch.equal(bottleneck.train().encode(latents), array)
        passed = bottleneck.eval()(latents)
    assert torch.allclose(bottleneck.decode(array), passed.latents, atol=1e-6)
    assert torch.equal(bottleneck.decode(array), bottleneck.decode(array.clone()))
    if config.latent_channels is None:
        assert torch.equal(passed.codes, array) and array.dtype == torch.int64
        assert array.shape == (2, 9, config.num_codebooks)
        assert array.min() >= 0 and array.max() < config.codebook_size


@pytest.mark.parametrize("config", DISCRETE)
def test_first_codebooks_equal_truncated_codes(config: BottleneckConfig) -> None:
    bottleneck, latents = prepared(config), torch.randn(2, 6, 9)
    codes = bottleneck.encode(latents)
    for k in range(1, config.num_codebooks + 1):
        assert torch.equal(bottleneck.encode(latents, num_codebooks=k), codes[..., :k])
        assert torch.equal(bottleneck.decode(codes, num_codebooks=k), bottleneck.decode(codes[..., :k]))
    assert not torch.equal(bottleneck.decode(codes[..., :1]), bottleneck.decode(codes))


@pytest.mark.parametrize("config", DISCRETE)
def test_codes_that_no_codebook_has_are_refused(config: BottleneckConfig) -> None:
    bottleneck, latents = prepared(config), torch.randn(1, 6, 4)
    codes = bottleneck.encode(latents)
    for wrong in (-1, config.codebook_size):
        with pytest.raises(ConfigError, match=f"codes from 0 to {config.codebook_size - 1}, found"):
            bottleneck.decode(codes.index_fill(1, torch.tensor([2]), wrong))
    with pytest.raises(ConfigError, match=f"1 to {config.num_codebooks} codebooks, found"):
        bottleneck.decode(torch.cat([codes, codes], dim=-1))
    for wrong in (0, config.num_codebooks + 1):
        with pytest.raises(ConfigError, match=f"num_codebooks: .*1 to {config.num_codebooks}, found {wrong}"):
            bottleneck.encode(latents, num_codebooks=wrong)


def test_codes_may_be_stored_as_small_integers() -> None:
    bottleneck = prepared(BOTTLENECKS[0])
    codes = bottleneck.encode(torch.randn(1, 6, 4))
    assert torch.equal(bottleneck.decode(codes.to(torch.int16)), bottleneck.decode(codes))


@pytest.mark.parametrize("config", BOTTLENECKS)
def test_state_survives_and_training_goes_on_equally(config: BottleneckConfig) -> None:
    first, second = config.build(6), config.build(6)
    first(torch.randn(2, 6, 40))
    second.load_state_dict(first.state_dict())
    batch, random = torch.randn(2, 6, 40), torch.get_rng_state()
    for bottleneck in (first, second):
        torch.set_rng_state(random)
        bottleneck(batch)
    for name, tensor in first.state_dict().items():
        assert torch.equal(second.state_dict()[name], tensor), name
    assert torch.equal(first.encode(batch), second.encode(batch))


def test_commitment_is_weighted_and_reported() -> None:
    weighted, latents = prepared(Rvq(num_codebooks=2, codebook_size=8, commitment=0.5)), torch.randn(2, 6, 9)
    passed = weighted(latents)
    assert torch.equal(passed.loss, 0.5 * passed.metrics["commitment"]) and passed.loss > 0


def test_half_precision_around_it_chooses_the_codes_of_full_precision() -> None:
    bottleneck, latents = prepared(BOTTLENECKS[0]), torch.randn(1, 6, 50).bfloat16()
    codes = bottleneck.encode(latents.float())
    assert torch.equal(bottleneck(latents).codes, codes)
    assert bottleneck(latents).latents.dtype == torch.bfloat16


def test_every_code_of_finite_scalars_comes_back() -> None:
    """Without projections a code is a point of a grid, which encodes to itself."""
    bottleneck = Fsq(levels=(5, 4, 3)).build(3).eval()
    codes = torch.arange(60).view(1, 60, 1)
    points = bottleneck.decode(codes)
    assert len(points[0].T.unique(dim=0)) == 60
    grid = [[2 * step / (levels - 1) - 1 for step in range(levels)] for levels in (5, 4, 3)]
    expected = torch.tensor(list(product(*grid)))
    assert torch.allclose(points[0].T.unique(dim=0), expected.unique(dim=0))
    # What the encoder's soft clamp would bend is bent the other way first.
    limit = 1 + 1 / (torch.tensor([5.0, 4.0, 3.0]) - 1)
    unbent = torch.atanh(points.mT / limit) * limit
    assert torch.equal(bottleneck.encode(unbent.mT), codes)


def test_divergence_is_that_of_torch_distributions() -> None:
    means, scales = torch.randn(2, 7, 5), torch.rand(2, 7, 5) + 0.1
    ours = kl_to_standard_normal(means, scales)
    standard = Normal(torch.zeros_like(means), torch.ones_like(scales))
    theirs = kl_divergence(Independent(Normal(means, scales), 1), Independent(standard, 1))
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert kl_to_standard_normal(torch.zeros(1, 5), torch.ones(1, 5)).abs().max() == 0


def test_a_gaussian_draws_in_training_around_the_means_it_encodes() -> None:
    bottleneck = GaussianBottleneck(Gaussian(latent_channels=5, kl_weight=0.5), 6)
    latents = torch.randn(1, 6, 3).expand(4000, 6, 3)
    with torch.no_grad():
        means, scales = bottleneck.distribution(latents)
        passed: Bottlenecked = bottleneck(latents)
        assert torch.equal(bottleneck.encode(latents), means)
        mean_output: Tensor = bottleneck.decode(means)
    assert torch.allclose(passed.loss, 0.5 * kl_to_standard_normal(means, scales).mean())
    spread = passed.latents - mean_output
    assert spread.mean(dim=0).abs().max() < 0.05
    weight = bottleneck.project_out.weight
    expected = torch.einsum("dz,tz->dt", weight.square(), scales[0].square()).sqrt()
    assert torch.allclose(spread.std(dim=0), expected, rtol=0.1)


def test_continuous_latents_have_no_codebooks_to_choose() -> None:
    bottleneck = prepared(Gaussian(latent_channels=5))
    with pytest.raises(ConfigError, match=r"num_codebooks .*continuous latents, found 2"):
        bottleneck.encode(torch.randn(1, 6, 4), num_codebooks=2)
