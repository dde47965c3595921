"""Adversarial losses equal their definitions, and each side is pulled the right way."""

import pytest
import torch

from solfa.config import Config, parse_config
from solfa.ops.adversarial import AnyAdversarialLoss, Hinge, LeastSquares, feature_matching_loss


def logits(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [2.0 * torch.randn(2, 1, 3, size, generator=generator, dtype=torch.float64) for size in (5, 2)]


def features(seed: int) -> list[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    sizes = [(4, 3), (2, 2)]
    return [[torch.randn(2, 6, size, generator=generator, dtype=torch.float64) for size in row] for row in sizes]


def mean_slowly(of, tensors: list[torch.Tensor]) -> float:
    """Average a function of numbers over each discriminator, then over the discriminators."""
    means = []
    for tensor in tensors:
        values = [of(float(value)) for value in tensor.flatten()]
        means.append(sum(values) / len(values))
    return sum(means) / len(means)


def test_hinge_losses_equal_their_definitions():
    real, fake = logits(1), logits(2)
    expected = mean_slowly(lambda x: max(0.0, 1 - x), real) + mean_slowly(lambda x: max(0.0, 1 + x), fake)
    assert Hinge().discriminator_loss(real, fake).item() == pytest.approx(expected)
    assert Hinge().generator_loss(fake).item() == pytest.approx(mean_slowly(lambda x: -x, fake))


def test_least_squares_losses_equal_their_definitions():
    real, fake = logits(1), logits(2)
    expected = mean_slowly(lambda x: (x - 1) ** 2, real) + mean_slowly(lambda x: x**2, fake)
    assert LeastSquares().discriminator_loss(real, fake).item() == pytest.approx(expected)
    assert LeastSquares().generator_loss(fake).item() == pytest.approx(mean_slowly(lambda x: (x - 1) ** 2, fake))


@pytest.mark.parametrize(("loss", "low"), [(Hinge(), -1.0), (LeastSquares(), 0.0)])
def test_a_discriminator_that_is_right_loses_nothing_and_the_generator_wants_it_wrong(loss, low):
    right = loss.discriminator_loss([torch.ones(2, 3)], [torch.full((2, 3), low)])
    assert right.item() == 0.0
    fake = torch.full((2, 3), low, requires_grad=True)
    loss.generator_loss([fake]).backward()
    assert (fake.grad < 0).all()


def test_feature_matching_equals_its_definition():
    real, fake = features(1), features(2)
    ratios = []
    for one_maps, other_maps in zip(real, fake, strict=True):
        for one, other in zip(one_maps, other_maps, strict=True):
            pairs = list(zip(one.flatten().tolist(), other.flatten().tolist(), strict=True))
            ratios.append(sum(abs(a - b) for a, b in pairs) / sum(abs(a) for a, _ in pairs))
    assert feature_matching_loss(real, fake).item() == pytest.approx(sum(ratios) / 4, rel=1e-6)


def test_feature_matching_is_zero_for_equal_features_and_does_not_depend_on_their_scale():
    real, fake = features(1), features(2)
    assert feature_matching_loss(real, features(1)).item() == 0.0
    loud = [[[100.0 * found for found in maps] for maps in rows] for rows in (real, fake)]
    assert feature_matching_loss(*loud).item() == pytest.approx(feature_matching_loss(real, fake).item(), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_gradient_of_feature_matching_lies_in_memory_as_the_maps_do(dtype):
    real, fake = (torch.randn(2, 8, 5, 7).to(dtype, memory_format=torch.channels_last) for _ in range(2))
    fake.requires_grad_()
    feature_matching_loss([[real]], [[fake]]).backward()
    assert fake.grad.is_contiguous(memory_format=torch.channels_last)
    slope = 1 / (2 * 8 * 5 * 7) / real.detach().double().abs().mean()
    expected = (fake.detach().double() - real.double()).sign() * slope
    torch.testing.assert_close(fake.grad.double(), expected, rtol=0.02 if dtype == torch.bfloat16 else 1e-5, atol=0)


def test_feature_matching_of_large_maps_in_half_precision_does_not_overflow():
    real = torch.ones(1, 4, 200, 200).half()
    assert feature_matching_loss([[real]], [[2 * real]]).item() == pytest.approx(1.0)


def test_feature_matching_moves_only_the_fake_and_survives_empty_maps():
    real, fake = (torch.zeros(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True))
    loss = feature_matching_loss([[real]], [[fake]])
    loss.backward()
    assert real.grad is None and torch.isfinite(fake.grad).all() and torch.isfinite(loss)


def test_nothing_to_judge_is_refused():
    with pytest.raises(ValueError, match="at least one discriminator"):
        Hinge().generator_loss([])
    with pytest.raises(ValueError, match="maps"):
        feature_matching_loss(features(1), features(1)[:1])
    with pytest.raises(ValueError, match="maps"):
        feature_matching_loss([], [])


class Game(Config):
    loss: AnyAdversarialLoss = Hinge()


def test_losses_are_chosen_by_kind():
    assert parse_config(Game, {"loss": {"kind": "least_squares"}}, "game").loss == LeastSquares()
    assert parse_config(Game, {"loss": {"kind": "hinge"}}, "game").loss == Hinge()
