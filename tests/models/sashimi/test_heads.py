"""All heads through one protocol: likelihood, masks, precision, draws, and how they start."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.models.sashimi.config import CategoricalHeadConfig, DmlHeadConfig, HeadConfig
from solfa.models.sashimi.heads import CategoricalHead, DmlHead, OutputHead
from solfa.ops.class_grid import LinearGrid, MulawGrid
from solfa.ops.temperature import TemperatureSemantics, draw_uniforms

GRID = MulawGrid(bits=5)
NUM_CLASSES = GRID.num_classes
HEADS = {
    "categorical": CategoricalHeadConfig(),
    "dml": DmlHeadConfig(n_mixtures=4, prediction_order=0),
    "dml on amplitudes": DmlHeadConfig(n_mixtures=4),
}


@pytest.fixture(params=HEADS)
def head(request: pytest.FixtureRequest) -> OutputHead:
    built = HEADS[request.param].build(GRID)
    assert isinstance(built, OutputHead) and isinstance(built, nn.Module) and not list(built.parameters())
    return built


def some_outputs(head: OutputHead, *shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, head.num_parameters, generator=torch.Generator().manual_seed(seed))


def some_classes(*shape: int, num_classes: int = NUM_CLASSES, seed: int = 1) -> Tensor:
    return torch.randint(num_classes, shape, generator=torch.Generator().manual_seed(seed))


class WithHead(Config):
    output_head: HeadConfig = CategoricalHeadConfig()


def test_a_head_is_chosen_by_its_kind() -> None:
    assert isinstance(WithHead().output_head.build(GRID), CategoricalHead)
    chosen = parse_config(WithHead, {"output_head": {"kind": "dml"}}, "test").output_head.build(LinearGrid())
    assert isinstance(chosen, DmlHead) and (chosen.num_classes, chosen.num_parameters) == (65536, 30)
    with pytest.raises(ConfigError, match=r"n_mixtures: .*found 0"):
        parse_config(WithHead, {"output_head": {"kind": "dml", "n_mixtures": 0}}, "test")


def test_the_numbers_of_a_mixture_are_logits_then_means_then_log_scales() -> None:
    head = DmlHead(NUM_CLASSES, 2)
    mixture = head.mixture(torch.tensor([1.0, 2.0, 0.3, 0.4, -1.0, -2.0]))
    assert [part.tolist() for part in mixture] == [[1, 2], pytest.approx([0.3, 0.4]), [-1, -2]]


def test_log_probabilities_are_those_of_all_classes(head: OutputHead) -> None:
    outputs, classes = some_outputs(head, 3, 7), some_classes(3, 7)
    probabilities = head.pmf(outputs)
    assert probabilities.shape == (3, 7, NUM_CLASSES)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(3, 7))
    expected = probabilities.gather(-1, classes[..., None]).squeeze(-1).log()
    torch.testing.assert_close(head.log_prob(outputs, classes), expected, rtol=1e-5, atol=1e-6)


def test_the_loss_is_the_mean_over_what_the_mask_keeps(head: OutputHead) -> None:
    outputs, classes = some_outputs(head, 2, 9).requires_grad_(), some_classes(2, 9)
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    padded = classes.masked_fill(~mask, 9999)
    loss = head.loss(outputs, padded, mask)
    torch.testing.assert_close(loss, -head.log_prob(outputs, classes)[mask].mean())
    (gradient,) = torch.autograd.grad(loss, outputs)
    assert gradient[mask].abs().sum(-1).min() > 0 and gradient[~mask].abs().max() == 0
    torch.testing.assert_close(head.loss(outputs, classes), -head.log_prob(outputs, classes).mean())
    assert head.loss(outputs, padded, torch.zeros_like(mask)) == 0


def test_what_is_no_class_is_no_free_class() -> None:
    head = CategoricalHead(NUM_CLASSES)
    with pytest.raises(RuntimeError, match="out of bounds"):
        head.log_prob(some_outputs(head, 1, 1), torch.full((1, 1), -100))


def test_all_is_float32_under_any_autocast(head: OutputHead) -> None:
    outputs, classes = some_outputs(head, 2, 50).bfloat16(), some_classes(2, 50)
    with torch.autocast("cpu", torch.bfloat16):
        inside = [head.log_prob(outputs, classes), head.loss(outputs, classes), head.pmf(outputs)]
        inside += head.statistics(outputs).values()
    wide = outputs.float()
    outside = [head.log_prob(wide, classes), head.loss(wide, classes), head.pmf(wide), *head.statistics(wide).values()]
    for found, expected in zip(inside, outside, strict=True):
        assert found.dtype == torch.float32 and torch.equal(found, expected)


@pytest.mark.parametrize("num_classes", [256, 65536])
@pytest.mark.parametrize("kind", ["categorical", "dml"])
def test_a_new_network_starts_hardly_worse_than_ignorant(kind: str, num_classes: int) -> None:
    head = HEADS[kind].build(LinearGrid(bits=num_classes.bit_length() - 1))
    projection = nn.Linear(8, head.num_parameters)
    head.initialize(projection)
    inputs = torch.randn(2, 100, 8, generator=torch.Generator().manual_seed(0))
    loud = some_classes(2, 100, num_classes=num_classes)
    assert head.loss(projection(inputs), loud) < math.log(num_classes) + 0.3


@pytest.mark.parametrize("num_mixtures", [1, 2, 10])
def test_a_mixture_starts_spread_over_the_line_and_symmetric(num_mixtures: int) -> None:
    head = DmlHead(256, num_mixtures)
    projection = nn.Linear(16, head.num_parameters)
    head.initialize(projection)
    logits, means, log_scales = head.mixture(projection(torch.zeros(16)))
    assert logits.tolist() == [0] * num_mixtures
    torch.testing.assert_close(means, -means.flip(0))
    torch.testing.assert_close(means.diff(), torch.full((num_mixtures - 1,), 2 / num_mixtures))
    assert means.abs().max() < 1
    assert log_scales.exp().min() > 0.099 and log_scales.exp().max() < 0.301
    torch.testing.assert_close(log_scales, log_scales.flip(0))
    small = projection(torch.randn(1000, 16)) - projection(torch.zeros(16))
    assert 0.02 < small.std() < 0.1


def test_around_a_prediction_a_mixture_starts_centred_and_from_narrow_to_wide() -> None:
    head = DmlHeadConfig(n_mixtures=3).build(GRID)
    projection = nn.Linear(16, head.num_parameters)
    head.initialize(projection)
    logits, offsets, log_scales = head.mixture(projection(torch.zeros(16)))
    assert logits.tolist() == offsets.tolist() == [0] * 3
    assert 1e-3 < log_scales.exp().min() < log_scales.exp().max() < 3e-2 and (log_scales.diff() > 0).all()


def test_beside_a_linear_path_the_cells_of_mulaw_are_intervals_of_amplitudes() -> None:
    head, bent = DmlHeadConfig(n_mixtures=4).build(GRID), DmlHead(NUM_CLASSES, 4)
    outputs = some_outputs(head, 1, 1)
    logits, means, log_scales = (part[0, 0].double() for part in outputs.chunk(3, dim=-1))
    borders = [-math.inf, *GRID.borders().tolist(), math.inf]
    for number, (lower, upper) in enumerate(pairwise(borders)):
        below, above = (torch.sigmoid((border - means) / log_scales.exp()) for border in (lower, upper))
        mass = float((logits.softmax(-1) * (above - below)).sum())
        found = head.log_prob(outputs, torch.tensor([[number]])).exp().item()
        assert found == pytest.approx(mass, rel=1e-4)
    assert (head.pmf(outputs) - bent.pmf(outputs)).abs().max() > 0.01
    assert head.log_prob(outputs, torch.tensor([[NUM_CLASSES]])).isnan()


def test_scales_have_a_floor_that_costs_nothing() -> None:
    head = DmlHead(65536, 1)
    outputs = torch.tensor([[[0.0, 1 / 65535, -1e9]]])
    assert -1e-9 < head.log_prob(outputs, torch.tensor([[32768]])).item() <= 0
    assert head.log_prob(outputs, torch.tensor([[32769]])).item() == pytest.approx(-0.5 * math.exp(4), rel=1e-3)
    assert head.smallest_log_scale < math.log(1 / 65535) - 2


def test_draws_follow_the_probabilities(head: OutputHead) -> None:
    outputs = some_outputs(head, 1, seed=3).expand(20_000, -1)
    drawn = head.draw(outputs, torch.Generator().manual_seed(5))
    expected = 20_000 * head.pmf(outputs[0]).double()
    likely = expected > 5
    deviation = (drawn.bincount(minlength=NUM_CLASSES) - expected) ** 2 / expected
    freedom = int(likely.sum())
    assert deviation[likely].sum() < freedom + 5 * math.sqrt(2 * freedom)


def test_the_same_numbers_draw_the_same_classes_in_any_batch(head: OutputHead) -> None:
    outputs = some_outputs(head, 5)
    generators = [torch.Generator().manual_seed(seed) for seed in range(5)]
    uniforms = torch.stack([draw_uniforms((head.num_uniforms,), generator) for generator in generators])
    together = head.draw_with(outputs, uniforms)
    for row in (0, 3):
        assert head.draw(outputs[row], torch.Generator().manual_seed(row)) == together[row]


@pytest.mark.parametrize("semantics", ["heuristic", "exact"])
def test_temperature_zero_draws_the_most_probable_class(head: OutputHead, semantics: TemperatureSemantics) -> None:
    outputs = some_outputs(head, 3, 20)
    drawn = head.draw(outputs, torch.Generator(), 0.0, semantics)
    assert torch.equal(drawn, head.pmf(outputs).argmax(-1))
    assert not torch.equal(drawn, head.draw(outputs, torch.Generator(), 0.5, semantics))
    with pytest.raises(ConfigError, match=r"temperature: .*found -1"):
        head.draw(outputs, torch.Generator(), -1.0, semantics)


def test_exact_temperature_is_a_power_for_both_heads(head: OutputHead) -> None:
    outputs = some_outputs(head, 1).expand(20_000, -1)
    drawn = head.draw(outputs, torch.Generator().manual_seed(2), 0.5, "exact")
    powers = head.pmf(outputs[0]) ** 2
    torch.testing.assert_close(
        drawn.bincount(minlength=NUM_CLASSES) / 20_000, powers / powers.sum(), rtol=0, atol=0.015
    )


def test_the_statistics_of_a_categorical_are_its_entropy() -> None:
    head = CategoricalHead(NUM_CLASSES)
    outputs, mask = some_outputs(head, 2, 6), torch.arange(6) < torch.tensor([[6], [2]])
    probabilities = outputs.softmax(-1)
    expected = -(probabilities * probabilities.log()).sum(-1)
    torch.testing.assert_close(head.statistics(outputs, mask), {"entropy": expected[mask].mean()})
    certain = torch.full((1, 1, NUM_CLASSES), -1e30)
    certain[..., 3] = 1e30
    assert head.statistics(certain)["entropy"] == 0


def test_the_statistics_of_a_mixture_are_averages_by_weight() -> None:
    head = DmlHead(NUM_CLASSES, 3)
    outputs, mask = some_outputs(head, 2, 6).requires_grad_(), torch.arange(6) < torch.tensor([[6], [2]])
    found = head.statistics(outputs, mask)
    expected = statistics_slowly(outputs.detach().double()[mask])
    assert found.keys() == expected.keys() and not any(value.requires_grad for value in found.values())
    for name, value in found.items():
        # The head computes in float32, and every one of these is a mean of numbers below 10.
        assert float(value) == pytest.approx(expected[name], abs=1e-5), name


def statistics_slowly(outputs: torch.Tensor) -> dict[str, float]:
    """Compute the statistics one sample and one component at a time, in float64."""
    rows = []
    for row in outputs.tolist():
        logits, means, log_scales = row[:3], row[3:6], row[6:]
        total = sum(math.exp(logit) for logit in logits)
        weights, scales = [math.exp(logit) / total for logit in logits], [math.exp(value) for value in log_scales]
        edge = 1 - 1 / (NUM_CLASSES - 1)  # where the outermost cells begin
        below = [1 / (1 + math.exp((mean + edge) / scale)) for mean, scale in zip(means, scales, strict=True)]
        above = [1 / (1 + math.exp((edge - mean) / scale)) for mean, scale in zip(means, scales, strict=True)]
        rows.append(
            {
                "avg_scale": sum(weight * scale for weight, scale in zip(weights, scales, strict=True)),
                "avg_mean": sum(weight * mean for weight, mean in zip(weights, means, strict=True)),
                "mixture_entropy": -sum(weight * math.log(weight) for weight in weights),
                "edge_mass": sum(weight * (b + a) for weight, b, a in zip(weights, below, above, strict=True)),
            }
        )
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def test_the_penalty_is_the_mean_over_what_the_mask_keeps_and_zero_without_a_linear_path(head: OutputHead) -> None:
    outputs, classes = some_outputs(head, 2, 9), some_classes(2, 9)
    mask = torch.arange(9) < torch.tensor([[9], [4]])
    found = head.penalty(outputs, classes.masked_fill(~mask, 9999), mask)
    kept = zip(outputs[mask], classes[mask], strict=True)
    one_by_one = torch.stack([head.penalty(numbers[None, None], known[None, None]) for numbers, known in kept])
    torch.testing.assert_close(found, one_by_one.mean())
    is_centred = isinstance(head, DmlHead) and head.is_centred
    assert bool(found == 0) != is_centred


def moment_head(bits: int = 10, weight: float = 1.0) -> DmlHead:
    return DmlHeadConfig(n_mixtures=2, moment_weight=weight).build(LinearGrid(bits=bits))


def test_the_penalty_takes_nothing_from_a_mixture_that_is_right() -> None:
    head = moment_head()
    outputs = torch.tensor([0.3, -0.2, 0.1, 0.15, -4.0, -3.0]).requires_grad_()
    shares = (torch.arange(100_000).double() + 0.5) / 100_000

    def expected_gradient(truth: Tensor) -> Tensor:
        drawn = torch.searchsorted(head.pmf(truth).double().cumsum(0), shares).clamp(max=head.num_classes - 1)
        (gradient,) = torch.autograd.grad(head.penalty(outputs.expand(1, len(drawn), -1), drawn[None]), outputs)
        return gradient

    assert expected_gradient(outputs.detach()).abs().max() < 5e-3
    louder = outputs.detach() + torch.tensor([0, 0, 0, 0, 0.2, 0.2])
    # Where the truth is wider, descending makes both components wider.
    assert expected_gradient(louder)[-2:].max() < -0.05


def test_the_penalty_minds_a_rare_wide_component_that_a_likelihood_hardly_does() -> None:
    head = moment_head(16)
    classes = head.grid.to_classes(0.01 * torch.randn(1, 4000, generator=torch.Generator().manual_seed(0)))
    right = torch.tensor([0.0, -30.0, 0.0, 0.0, -5.2, -1.0]).expand(1, 4000, 6)
    wrong = torch.tensor([0.0, -4.6, 0.0, 0.0, -5.2, -1.0]).expand(1, 4000, 6)
    assert float(head.loss(wrong, classes) - head.loss(right, classes)) < 0.02
    assert float(head.penalty(wrong, classes) - head.penalty(right, classes)) > 0.5


@pytest.mark.parametrize("bits", [8, 16])
def test_the_penalty_is_finite_in_digital_silence(bits: int) -> None:
    head = moment_head(bits)
    outputs = torch.tensor([0.0, 0.0, 0.0, 0.0, -40.0, -40.0]).expand(1, 5, 6).clone().requires_grad_()
    silence = torch.full((1, 5), head.num_classes // 2)
    score = head.penalty(outputs, silence)
    (gradient,) = torch.autograd.grad(score, outputs)
    # Half a step from the class, where rounding alone has a twelfth: three variances.
    step = 2 / (head.num_classes - 1)
    assert score.item() == pytest.approx((math.log(step**2 / 12) + 3) / 2, abs=0.02)
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize(("name", "value"), [("moment_weight", 0.5), ("opening_samples", 100)])
def test_what_needs_a_linear_path_is_refused_without_one(name: str, value: float) -> None:
    values = {"output_head": {"kind": "dml", "prediction_order": 0, name: value}}
    with pytest.raises(ConfigError, match=rf"{name}: found {value:g} without a linear path"):
        parse_config(WithHead, values, "test")
