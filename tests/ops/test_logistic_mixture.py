"""The mixture of logistics: against its slow definition, as a distribution, at the extremes of float32, and drawn."""

import math
from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext
from itertools import product

import pytest
import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.ops.class_grid import LinearGrid, MulawGrid, cells_on
from solfa.ops.logistic_mixture import (
    class_range_log_prob,
    interval_log_prob,
    log_prob,
    moments,
    pmf,
    sample,
    sample_with,
)
from solfa.ops.temperature import TemperatureSemantics

SIZES = (2, 3, 17, 256, 1024, 65536)
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
dtypes = pytest.mark.parametrize("dtype", TOLERANCE)
sizes = pytest.mark.parametrize("num_classes", SIZES)
Parameters = tuple[Tensor, Tensor, Tensor]


def parameters(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Parameters:
    """Logits, means and log-scales: from far narrower than a 16-bit cell to wider than the line."""
    generator = torch.Generator().manual_seed(seed)
    logits, means, scales = torch.randn(3, *shape, generator=generator)
    return (2 * logits).to(dtype), (0.7 * means).to(dtype), (3 * scales - 5).clamp(-12, 6).to(dtype)


def some_classes(num_classes: int) -> Tensor:
    return torch.tensor(sorted({0, 1, num_classes // 3, num_classes // 2, max(num_classes - 2, 0), num_classes - 1}))


def expanded(mixture: Parameters, size: int) -> Parameters:
    """The same mixture for each of `size` classes."""
    logits, means, log_scales = (part[..., None, :].expand(*part.shape[:-1], size, -1) for part in mixture)
    return logits, means, log_scales


def slow_mass(mean: Decimal, scale: Decimal, lower: Decimal, upper: Decimal) -> Decimal:
    """The difference of the logistic distribution function at two borders, in the tail where it does not cancel."""
    low, high = (lower - mean) / scale, (upper - mean) / scale
    if low > 0:
        low, high = -high, -low
    return 1 / (1 + (-high).exp()) - 1 / (1 + (-low).exp())


def slow_log_prob(logits: Tensor, means: Tensor, log_scales: Tensor, lower: float, upper: float) -> float:
    """The definition, in sixty decimal digits; borders are amplitudes."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, MAX_EMAX, MIN_EMIN
        weights = [Decimal(value).exp() for value in logits.tolist()]
        masses = [
            weight * slow_mass(Decimal(mean), Decimal(log_scale).exp(), Decimal(lower), Decimal(upper))
            for weight, mean, log_scale in zip(weights, means.tolist(), log_scales.tolist(), strict=True)
        ]
        return float((sum(masses) / sum(weights)).ln())


def slow_class_log_prob(mixture: Parameters, place: int, num_classes: int) -> float:
    with localcontext() as context:
        context.prec = 60
        lower = -Decimal("Infinity") if place == 0 else Decimal(2 * place - 1) / (num_classes - 1) - 1
        upper = Decimal("Infinity") if place == num_classes - 1 else Decimal(2 * place + 1) / (num_classes - 1) - 1
    return slow_log_prob(*mixture, lower, upper)


@sizes
def test_it_is_its_definition_for_every_class(num_classes: int) -> None:
    classes = some_classes(num_classes)
    for seed in range(4):
        mixture = parameters(3, seed=seed)
        found = log_prob(*expanded(mixture, len(classes)), classes, num_classes)
        expected = [slow_class_log_prob(mixture, place, num_classes) for place in classes.tolist()]
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mean", [-50.0, 0.0, 0.4, 50.0])
@pytest.mark.parametrize("log_scale", [-12.0, -3.0, 6.0])
def test_it_is_its_definition_far_in_the_tails(mean: float, log_scale: float) -> None:
    mixture = torch.zeros(1).double(), torch.tensor([mean]).double(), torch.tensor([log_scale]).double()
    for num_classes, place in product((3, 256, 65536), (0, 1, -2, -1)):
        found = log_prob(*mixture, torch.tensor(place % num_classes), num_classes).item()
        expected = slow_class_log_prob(mixture, place % num_classes, num_classes)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-14)


@sizes
def test_float32_is_float64_up_to_the_rounding_of_its_input(num_classes: int) -> None:
    classes = torch.randint(num_classes, (2000,), generator=torch.Generator().manual_seed(1))
    single = parameters(2000, 5, dtype=torch.float32)
    double = tuple(part.double() for part in single)
    found, expected = log_prob(*single, classes, num_classes), log_prob(*double, classes, num_classes)
    assert found.dtype == torch.float32
    # One rounding of a mean or a distance, in scales of the narrowest component.
    error = 1 + expected.abs() + ((1 + double[1].abs()) / double[2].exp()).amax(-1)
    assert ((found - expected).abs() < 3e-7 * error).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    mixture = parameters(9, 5, dtype=dtype)
    classes = torch.full((9,), 700)
    found = log_prob(*mixture, classes, 1024)
    assert found.dtype == torch.float32
    assert torch.equal(found, log_prob(*(part.float() for part in mixture), classes, 1024))


@dtypes
@sizes
def test_probabilities_sum_to_one_and_are_those_of_log_prob(num_classes: int, dtype: torch.dtype) -> None:
    mixture = parameters(4, 5, dtype=dtype)
    probabilities = pmf(*mixture, num_classes)
    assert probabilities.dtype == dtype and (probabilities >= 0).all()
    assert (probabilities.double().sum(-1) - 1).abs().max() < TOLERANCE[dtype]
    classes = torch.arange(num_classes).expand(4, -1)
    logarithms = log_prob(*expanded(mixture, num_classes), classes, num_classes)
    torch.testing.assert_close(logarithms.exp(), probabilities, rtol=30 * TOLERANCE[dtype], atol=1e-30)
    assert (logarithms.double().exp().sum(-1) - 1).abs().max() < 3 * TOLERANCE[dtype]


@dtypes
@sizes
def test_the_order_of_components_and_a_shift_of_logits_make_no_difference(num_classes: int, dtype: torch.dtype) -> None:
    logits, means, log_scales = parameters(500, 6, dtype=dtype)
    classes = torch.randint(num_classes, (500,), generator=torch.Generator().manual_seed(2))
    expected = log_prob(logits, means, log_scales, classes, num_classes)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    permuted = log_prob(logits[:, order], means[:, order], log_scales[:, order], classes, num_classes)
    shifted = log_prob(logits + 8, means, log_scales, classes, num_classes)
    torch.testing.assert_close(permuted, expected, rtol=5 * TOLERANCE[dtype], atol=5 * TOLERANCE[dtype])
    torch.testing.assert_close(shifted, expected, rtol=5 * TOLERANCE[dtype], atol=5 * TOLERANCE[dtype])


@dtypes
@sizes
def test_the_mirror_image_has_the_same_numbers_to_the_bit(num_classes: int, dtype: torch.dtype) -> None:
    logits, means, log_scales = parameters(500, 6, dtype=dtype)
    classes = torch.randint(num_classes, (500,), generator=torch.Generator().manual_seed(3))
    mirrored = log_prob(logits, -means, log_scales, num_classes - 1 - classes, num_classes)
    assert torch.equal(log_prob(logits, means, log_scales, classes, num_classes), mirrored)


@sizes
def test_gradients_are_those_of_finite_differences(num_classes: int) -> None:
    classes = some_classes(num_classes)
    logits, means, log_scales = parameters(len(classes), 3)
    # Within a few scales: a difference of numbers of a thousand nats says nothing about their gradient.
    inputs = [logits, means, log_scales.clamp(min=-3 - math.log(num_classes) / 2)]
    for part in inputs:
        part.requires_grad_()
    assert torch.autograd.gradcheck(lambda *mixture: log_prob(*mixture, classes, num_classes), inputs)


def gradients(mixture: Parameters, classes: Tensor, num_classes: int) -> tuple[Tensor, ...]:
    inputs = [part.detach().requires_grad_() for part in mixture]
    return torch.autograd.grad(log_prob(*inputs, classes, num_classes).sum(), inputs)


@sizes
def test_gradients_of_float32_are_those_of_float64(num_classes: int) -> None:
    classes = torch.randint(num_classes, (500,), generator=torch.Generator().manual_seed(4))
    logits, means, log_scales = parameters(500, 5, dtype=torch.float32)
    single = logits, means, log_scales.clamp(min=-4)
    double = single[0].double(), single[1].double(), single[2].double()
    pairs = zip(gradients(single, classes, num_classes), gradients(double, classes, num_classes), strict=True)
    for found, expected in pairs:
        torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=3e-4)


LARGEST = torch.finfo(torch.float32).max
SMALLEST = 1e-45


@sizes
def test_every_finite_input_has_a_finite_value_and_gradient(num_classes: int) -> None:
    """All pairs of extremes for one component, beside another one at an extreme, under extreme weights."""
    means = (0.0, SMALLEST, 1.0, -1.0, 50.0, -50.0, 1e12, -1e13, LARGEST, -LARGEST)
    scales = (0.0, -12.0, 6.0, -90.0, 90.0, -1e30, 1e30, LARGEST, -LARGEST)
    weights = ((0.0, 0.0), (1e30, -1e30), (LARGEST, -LARGEST), (-LARGEST, LARGEST), (-LARGEST, -LARGEST))
    others = ((0.3, -2.0), (LARGEST, -LARGEST), (-LARGEST, LARGEST))
    rows = [
        (*pair, mean, other[0], scale, other[1]) for pair, mean, scale, other in product(weights, means, scales, others)
    ]
    logits, locations, log_scales = torch.tensor(rows).unflatten(1, (3, 2)).unbind(1)
    for place in some_classes(num_classes).tolist():
        classes = torch.full((len(rows),), place)
        value = log_prob(logits, locations, log_scales, classes, num_classes)
        assert value.isfinite().all() and (value < 1e-6).all()
        assert all(part.isfinite().all() for part in gradients((logits, locations, log_scales), classes, num_classes))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_mixtures_are_still_distributions_and_can_be_drawn_from(dtype: torch.dtype) -> None:
    values = (0.0, 50.0, -LARGEST, LARGEST)
    logits, means, log_scales = (
        torch.tensor(list(product(values, repeat=6)), dtype=dtype).unflatten(1, (3, 2)).unbind(1)
    )
    for num_classes in (2, 17):
        assert (pmf(logits, means, log_scales, num_classes).sum(-1) - 1).abs().max() < 1e-6
        drawn = sample(logits, means, log_scales, num_classes, torch.Generator().manual_seed(0))
        assert int(drawn.min()) >= 0 and int(drawn.max()) < num_classes


def test_a_narrow_component_costs_nothing_and_a_wide_one_gives_all_to_the_edges() -> None:
    silence = torch.tensor([32768])
    centre = torch.tensor([[1 / 65535]])
    assert log_prob(torch.zeros(1, 1), centre, torch.full((1, 1), -20.0), silence, 65536).item() == 0
    edges = pmf(torch.zeros(1), torch.zeros(1), torch.tensor([40.0]), 65536)[[0, -1]]
    torch.testing.assert_close(edges, torch.tensor([0.5, 0.5]))


@pytest.mark.parametrize("num_classes", [1, 65537])
def test_other_numbers_of_classes_are_refused(num_classes: int) -> None:
    with pytest.raises(ConfigError, match=f"2 to 65536 classes, found {num_classes}"):
        log_prob(*parameters(1, 1), torch.zeros(1, dtype=torch.int64), num_classes)


def test_what_is_no_class_has_no_probability() -> None:
    found = log_prob(*parameters(5, 3), torch.tensor([-100, -1, 0, 255, 256]), 256)
    assert found.isnan().tolist() == [True, True, False, False, True]
    first, last = torch.tensor([3, 3, 4, 0, 0]), torch.tensor([3, 2, 256, 255, 9])
    assert class_range_log_prob(*parameters(5, 3), first, last, 256).isnan().tolist() == [
        False,
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("fine", [LinearGrid(bits=16), MulawGrid(bits=12)])
@pytest.mark.parametrize("coarse", [MulawGrid(bits=8), LinearGrid(bits=6)])
def test_a_coarser_grid_holds_the_sums_of_the_finer_one(
    fine: LinearGrid | MulawGrid, coarse: LinearGrid | MulawGrid
) -> None:
    mixture = parameters(7)
    groups = coarse.to_classes(fine.to_audio(torch.arange(fine.num_classes)))
    sizes = groups.bincount(minlength=coarse.num_classes)
    last = sizes.cumsum(0) - 1
    found = class_range_log_prob(*expanded(mixture, coarse.num_classes), last - sizes + 1, last, fine.num_classes)
    expected = torch.zeros(coarse.num_classes).double().index_add(0, groups, pmf(*mixture, fine.num_classes))
    torch.testing.assert_close(found.exp(), expected, rtol=1e-11, atol=1e-13)


def test_an_interval_between_borders_of_classes_holds_these_classes() -> None:
    num_classes = 1000
    mixture = parameters(40, 3)
    first = torch.randint(1, 500, (40,), generator=torch.Generator().manual_seed(5))
    last = first + torch.arange(40)
    lower, upper = (2 * first - 1) / (num_classes - 1) - 1, (2 * last + 1) / (num_classes - 1) - 1
    expected = class_range_log_prob(*mixture, first, last, num_classes)
    borders = ((2 * first.double() - 1) / (num_classes - 1) - 1, (2 * last.double() + 1) / (num_classes - 1) - 1)
    torch.testing.assert_close(interval_log_prob(*mixture, *borders), expected, rtol=1e-9, atol=1e-11)
    single = interval_log_prob(*(part.float() for part in mixture), lower, upper)
    assert single.dtype == torch.float32 and single.isfinite().all()


@dtypes
def test_the_cells_of_any_other_grid_sum_to_one_and_match_the_definition(dtype: torch.dtype) -> None:
    for grid, other in product((LinearGrid(bits=12), MulawGrid(bits=8)), (MulawGrid(bits=8), LinearGrid(bits=10))):
        mixture = parameters(3, dtype=dtype)
        cells = cells_on(grid, other)
        found = interval_log_prob(*expanded(mixture, other.num_classes), *cells)
        assert found.isfinite().all()
        assert (found.double().exp().sum() - 1).abs() < TOLERANCE[dtype]
        for place in (0, 1, other.num_classes // 2, other.num_classes - 1):
            expected = slow_log_prob(*mixture, cells.lower[place].item(), cells.upper[place].item())
            assert found[place].item() == pytest.approx(expected, rel=1e3 * TOLERANCE[dtype])


def test_an_interval_has_finite_gradients_at_infinite_borders() -> None:
    inputs = [part.requires_grad_() for part in parameters(4, 3)]
    lower, upper = torch.tensor([-torch.inf, -0.5, -0.01, -torch.inf]), torch.tensor([0.1, torch.inf, 0.02, torch.inf])
    with torch.no_grad():
        inputs[2].clamp_(min=-3)
    assert torch.autograd.gradcheck(lambda *mixture: interval_log_prob(*mixture, lower, upper), inputs)
    assert interval_log_prob(*inputs, lower, upper)[3].item() == pytest.approx(0, abs=1e-15)


def chi_square_is_ordinary(drawn: Tensor, probabilities: Tensor) -> bool:
    """Whether draws fit: at most five standard deviations above the mean of the statistic."""
    expected = probabilities.double() * drawn.numel()
    counts = drawn.flatten().bincount(minlength=len(probabilities)).double()
    rare = expected < 10
    expected = torch.cat([expected[~rare], expected[rare].sum()[None]])
    counts = torch.cat([counts[~rare], counts[rare].sum()[None]])
    statistic, freedom = ((counts - expected) ** 2 / expected.clamp(min=1e-9)).sum(), len(expected) - 1
    return bool(statistic < freedom + 5 * math.sqrt(2 * freedom))


OVERLAPPING = torch.tensor([0.6, 0.2, 0.0]), torch.tensor([-0.3, 0.1, 0.95]), torch.tensor([-1.2, -3.0, -2.0])
"""A wide, heavy component, a narrow one whose peak is the highest, and one at the edge."""


def many(num_draws: int) -> Parameters:
    return expanded(OVERLAPPING, num_draws)


def tempered(temperature: float, semantics: TemperatureSemantics, num_classes: int) -> Tensor:
    logits, means, log_scales = OVERLAPPING
    if semantics == "heuristic":
        return pmf(logits / temperature, means, log_scales + math.log(temperature), num_classes)
    powers = pmf(*OVERLAPPING, num_classes).double() ** (1 / temperature)
    return powers / powers.sum()


@pytest.mark.parametrize("semantics", ["heuristic", "exact"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_draws_are_distributed_as_the_temperature_says(temperature: float, semantics: TemperatureSemantics) -> None:
    num_classes = 32
    drawn = sample(*many(15_000), num_classes, torch.Generator().manual_seed(7), temperature, semantics)
    assert chi_square_is_ordinary(drawn, tempered(temperature, semantics, num_classes))
    if temperature != 1:
        other: TemperatureSemantics = "exact" if semantics == "heuristic" else "heuristic"
        assert not chi_square_is_ordinary(drawn, tempered(temperature, other, num_classes))


@pytest.mark.parametrize("num_classes", [2, 256, 65536])
def test_draws_reproduce_the_probabilities_at_any_number_of_classes(num_classes: int) -> None:
    drawn = sample(*many(100_000), num_classes, torch.Generator().manual_seed(8))
    probabilities = pmf(*OVERLAPPING, num_classes)
    if num_classes > 1024:  # too many to count each of them
        groups = MulawGrid(bits=7).to_classes(LinearGrid(bits=16).to_audio(torch.arange(num_classes)))
        probabilities = torch.zeros(128).index_add(0, groups, probabilities)
        drawn = groups[drawn]
    assert chi_square_is_ordinary(drawn, probabilities)


def test_the_nats_of_draws_average_to_the_entropy() -> None:
    num_classes, num_draws = 256, 50_000
    drawn = sample(*many(num_draws), num_classes, torch.Generator().manual_seed(9))
    nats = -log_prob(*many(num_draws), drawn, num_classes).double()
    entropy = torch.special.entr(pmf(*OVERLAPPING, num_classes).double()).sum()
    assert abs(nats.mean() - entropy) < 4 * nats.std() / math.sqrt(num_draws)


def test_the_semantics_of_temperature_are_far_apart_and_meet_at_one() -> None:
    distance = (tempered(0.3, "heuristic", 64) - tempered(0.3, "exact", 64)).abs().sum() / 2
    assert distance > 0.2
    draws = [sample(*many(99), 256, torch.Generator().manual_seed(1), 1.0, name) for name in ("heuristic", "exact")]
    assert torch.equal(*draws)


@pytest.mark.parametrize("semantics", ["heuristic", "exact"])
def test_temperature_zero_is_the_most_probable_class_and_not_the_heaviest_component(
    semantics: TemperatureSemantics,
) -> None:
    mixture = expanded((torch.tensor([0.6, 0.2]), torch.tensor([-0.3, 0.1]), torch.tensor([-2.5, -4.5])), 5)
    wide, narrow = round(0.7 / 2 * 255), round(1.1 / 2 * 255)
    assert sample(*mixture, 256, torch.Generator(), 0.0, semantics).tolist() == [narrow] * 5
    lowest = sample(*mixture, 256, torch.Generator(), 1e-42, semantics).tolist()
    assert lowest == [narrow if semantics == "exact" else wide] * 5


def test_exact_temperature_knows_probabilities_that_float32_does_not() -> None:
    # At distances of hundreds of scales; a high temperature brings them back.
    narrow = torch.zeros(1), torch.zeros(1), torch.tensor([-6.0])
    drawn = sample(*expanded(narrow, 4000), 32, torch.Generator().manual_seed(3), 1000.0, "exact")
    assert len(drawn.unique()) > 25


def test_exact_temperature_is_refused_where_it_would_take_all_of_many_classes() -> None:
    generator = torch.Generator()
    with pytest.raises(ConfigError, match=r"^temperature: .*1024 classes .*found 65536; .*heuristic"):
        sample(*many(1), 65536, generator, 0.9, "exact")
    assert sample(*many(1), 65536, generator, 1.0, "exact").shape == (1,)
    assert sample(*many(1), 65536, generator, 0.0, "exact").shape == (1,)


def test_the_same_numbers_give_the_same_classes_in_any_batch() -> None:
    mixture = parameters(6, 4, dtype=torch.float32)
    uniforms = torch.rand(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    together = sample_with(*mixture, 256, uniforms)
    alone = [sample_with(*(part[row] for part in mixture), 256, uniforms[row]) for row in range(6)]
    assert torch.equal(torch.stack(alone), together)
    assert torch.equal(sample(*mixture, 256, torch.Generator().manual_seed(0)), together)


def test_no_number_in_the_open_interval_draws_farther_than_forty_scales() -> None:
    least, most = 2.0**-54, 1 - 2.0**-53
    uniforms = torch.tensor([[0.5, least], [0.5, most]], dtype=torch.float64)
    mixture = torch.zeros(2, 1), torch.zeros(2, 1), torch.full((2, 1), math.log(1e-3))
    drawn = LinearGrid(bits=16).to_audio(sample_with(*mixture, 65536, uniforms))
    assert drawn.abs().max() < 0.04 and drawn[0] < 0 < drawn[1]


def test_moments_are_those_of_a_fine_grid() -> None:
    generator = torch.Generator().manual_seed(5)
    logits, means = (torch.randn(6, 3, generator=generator).double() for _ in range(2))
    means, log_scales = 0.2 * means.tanh(), torch.tensor([-6.0, -5.0, -4.0]).double().expand(6, 3)
    probabilities = pmf(logits, means, log_scales, 4096)
    places = torch.linspace(-1, 1, 4096, dtype=torch.float64)
    mean = (probabilities * places).sum(-1)
    found = moments(logits, means, log_scales)
    torch.testing.assert_close(found.mean, mean, atol=1e-9, rtol=0)
    # Rounding to steps of a width adds a twelfth of its square.
    rounded = (probabilities * (places - mean[:, None]).square()).sum(-1)
    torch.testing.assert_close(found.variance + (2 / 4095) ** 2 / 12, rounded, rtol=1e-6, atol=0)
