"""Every parameter is written by somebody, and what nobody wrote cannot pass for a weight."""

import pytest
import torch
from torch import nn

from solfa.errors import ConfigError
from solfa.models.mot.ledger import Ledger, ParameterOrigin, draw_low_rank, load_like, poison
from solfa.nn.linears.low_rank import LowRank


class TwoParts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 2)
        self.second = nn.Linear(2, 400, bias=False)


def written(module: TwoParts) -> Ledger:
    """Write everything but the second part."""
    ledger = Ledger(module)
    ledger.load(module.first.weight, torch.ones(2, 3), "file first")
    ledger.fill(module.first.bias, 0.5)
    return ledger


def test_poison_leaves_no_number() -> None:
    module = TwoParts()
    poison(module)
    assert all(parameter.isnan().all() for parameter in module.parameters())


def test_a_ledger_poisons_what_it_is_opened_for() -> None:
    module = TwoParts()
    written(module)
    assert module.second.weight.isnan().all() and not module.first.weight.isnan().any()


def test_a_parameter_that_was_forgotten_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^somewhere: 1 parameters .*second\.weight$"):
        written(TwoParts()).close("somewhere")
    with pytest.raises(ConfigError, match=r"3 parameters .*first\.weight$"):
        Ledger(TwoParts()).close("somewhere")


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_checkpoint_with_something_that_is_no_number_is_named(value: float) -> None:
    module, broken = TwoParts(), torch.zeros(400, 2)
    broken[7, 1] = value
    ledger = written(module)
    ledger.load(module.second.weight, broken, "file second")
    with pytest.raises(ConfigError, match=r"NaN .*second\.weight \(loaded from file second\)"):
        ledger.close("somewhere")


def test_a_tensor_of_another_shape_is_refused() -> None:
    module = TwoParts()
    with pytest.raises(ConfigError, match=r"^file x: .*\[400, 2\], found \[2, 400\]"):
        written(module).load(module.second.weight, torch.zeros(2, 400), "file x")


def test_nothing_is_written_twice() -> None:
    module = TwoParts()
    with pytest.raises(AssertionError, match="a parameter is written once"):
        written(module).fill(module.first.bias, 1.0)


def test_the_report_says_from_what_each_parameter_came_and_which_are_trained() -> None:
    module = TwoParts()
    ledger = written(module)
    ledger.draw(module.second.weight, 0.25)
    module.first.requires_grad_(False)
    report = ledger.close("somewhere")
    assert report.origins == {
        "first.weight": ParameterOrigin("loaded", "file first"),
        "first.bias": ParameterOrigin("initialised", "0.5"),
        "second.weight": ParameterOrigin("initialised", "normal, std 0.25"),
    }
    assert report.trained == {"second.weight"} and (report.num_trained, report.num_frozen) == (800, 8)
    assert str(report) == (
        "2 tensors initialised, 1 tensors loaded; 800 parameters trained, 8 frozen on the audio side"
    )
    assert torch.equal(module.first.weight, torch.ones(2, 3)) and (module.first.bias == 0.5).all()
    assert 0.22 < module.second.weight.std() < 0.28 and abs(module.second.weight.mean()) < 0.04


def test_drawing_without_spread_is_exactly_zero_and_costs_no_random_number() -> None:
    module = TwoParts()
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    ledger = written(module)
    ledger.draw(module.second.weight, 0.0)
    assert (module.second.weight == 0).all() and torch.equal(torch.rand(1), expected)
    assert ledger.close("somewhere").origins["second.weight"] == ParameterOrigin("initialised", "zeros")


def test_loading_like_another_takes_every_parameter_of_the_same_name() -> None:
    module, source = TwoParts(), TwoParts()
    ledger = Ledger(module)
    load_like(module, source, ledger, "other")
    assert {name: origin.source for name, origin in ledger.close("x").origins.items()} == {
        "first.weight": "other.first.weight",
        "first.bias": "other.first.bias",
        "second.weight": "other.second.weight",
    }
    for ours, theirs in zip(module.parameters(), source.parameters(), strict=True):
        assert torch.equal(ours, theirs) and ours.data_ptr() != theirs.data_ptr()


def test_a_low_rank_product_starts_at_zero_and_can_leave_it() -> None:
    part = LowRank(64, 5, 16, 1.0)
    draw_low_rank(part, ledger := Ledger(part))
    ledger.close("x")
    assert (part.up.weight == 0).all() and abs(part.down.weight.std() * 64**0.5 - 1) < 0.1
    part(torch.randn(7, 64)).sum().backward()
    assert part.up.weight.grad is not None and part.up.weight.grad.abs().sum() > 0
