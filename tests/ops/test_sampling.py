"""Drawing codes: against slow definitions, the distribution it claims, and the batch it must not depend on."""

import pytest
import torch
from torch import Tensor

from solfa.ops.sampling import draw, filter_logits, guide, invert_distribution


def generators(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def random_logits(*shape: int, seed: int = 0) -> Tensor:
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def kept_by_definition(row: list[float], top_k: int, top_p: float) -> set[int]:
    """Walk down from the most probable code, as the definitions of top-k and top-p say."""
    order = sorted(range(len(row)), key=lambda code: -row[code])
    if top_k:
        order = order[:top_k]
    weights = [torch.tensor(row[code], dtype=torch.float64).exp().item() for code in order]
    kept, reached = set(), 0.0
    for code, weight in zip(order, weights, strict=True):
        if top_p and reached >= top_p:
            break
        kept.add(code)
        reached += weight / sum(weights)
    return kept


@pytest.mark.parametrize(
    ("top_k", "top_p"), [(0, 0.0), (1, 0.0), (5, 0.0), (50, 0.0), (0, 0.01), (0, 0.6), (0, 0.95), (0, 1.0), (7, 0.5)]
)
def test_filters_keep_what_their_definitions_keep(top_k: int, top_p: float) -> None:
    logits = random_logits(3, 2, 20)
    filtered = filter_logits(logits, top_k, top_p)
    for row, result in zip(logits.flatten(0, 1), filtered.flatten(0, 1), strict=True):
        kept = kept_by_definition(row.tolist(), min(top_k, 20), 0.0 if top_p == 1 else top_p)
        assert {code for code in range(20) if result[code] > -torch.inf} == kept
        assert all(result[code] == row[code] for code in kept)


def test_zeros_switch_the_filters_off() -> None:
    logits = random_logits(2, 20)
    assert torch.equal(filter_logits(logits, 0, 0.0), logits)


def test_guidance_moves_away_from_the_unconditional_logits() -> None:
    conditional, unconditional = random_logits(2, 3, 9), random_logits(2, 3, 9, seed=1)
    expected = unconditional + 3 * (conditional - unconditional)
    torch.testing.assert_close(guide(conditional, unconditional, 3.0), expected)
    assert torch.equal(guide(conditional, unconditional, 1.0), conditional)
    assert torch.equal(guide(conditional, unconditional, 0.0), unconditional)


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, 0), (0.5, 0), (1.0, 6)])
def test_draws_are_distributed_as_the_softmax(temperature: float, top_k: int) -> None:
    num_draws, num_codes = 20_000, 10
    logits = random_logits(1, 1, num_codes)
    codes = draw(logits.expand(1, num_draws, num_codes), temperature, top_k, 0.0, generators(5))
    counts = codes.flatten().bincount(minlength=num_codes).double()
    expected = num_draws * filter_logits(logits / temperature, top_k, 0.0).double().softmax(-1).flatten()
    possible = expected > 0
    assert counts[~possible].sum() == 0
    chi_square = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    assert chi_square < 27.9, "with 9 degrees of freedom this happens once in a thousand seeds"


def test_a_clip_draws_the_same_in_any_batch() -> None:
    logits = random_logits(5, 4, 300)
    together = draw(logits, 1.0, 250, 0.9, generators(10, 11, 12, 13, 14))
    order = [3, 0, 4]
    others = draw(logits[order], 1.0, 250, 0.9, generators(13, 10, 14))
    assert torch.equal(others, together[order])
    assert torch.equal(draw(logits[2:3], 1.0, 250, 0.9, generators(12)), together[2:3])


def test_seeds_and_steps_draw_differently() -> None:
    logits = torch.zeros(2, 8, 1000)
    several = generators(1, 2)
    first, second = (draw(logits, 1.0, 0, 0.0, several) for _ in range(2))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, second)
    assert torch.equal(first, draw(logits, 1.0, 0, 0.0, generators(1, 2)))


def test_temperature_zero_takes_the_most_probable_code_and_no_random_number() -> None:
    logits = random_logits(2, 4, 30)
    used = generators(1, 2)
    before = [generator.get_state() for generator in used]
    assert torch.equal(draw(logits, 0.0, 250, 0.5, used), logits.argmax(-1))
    assert all(torch.equal(generator.get_state(), state) for generator, state in zip(used, before, strict=True))


def test_a_code_of_probability_zero_is_never_found() -> None:
    probabilities = torch.tensor([0.0, 0.3, 0.0, 0.7, 0.0]).expand(4, 5)
    largest = 1 - 2**-24
    uniforms = torch.tensor([0.0, 0.29, 0.31, largest])
    assert invert_distribution(probabilities, uniforms).tolist() == [1, 1, 3, 3]
