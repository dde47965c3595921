"""The average follows its formula, stands in for the parameters and leaves their bits alone."""

import io

import pytest
import torch
from torch import nn

from solfa.errors import ConfigError
from solfa.solvers.optim.ema import Ema, EmaConfig


def net(dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
    module[2].requires_grad_(False)
    return module.to(dtype)


def move(module: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter.dtype))


@pytest.mark.parametrize(("every", "warmup"), [(1, False), (3, False), (1, True), (2, True)])
def test_the_average_follows_its_formula(every, warmup):
    module = net()
    ema = Ema({"model": module}, EmaConfig(decay=0.8, every=every, warmup=warmup))
    slow = module[0].weight.detach().double()
    averages_made = 0
    for update in range(1, 31):
        move(module, update)
        ema.update()
        if update % every == 0:
            averages_made += 1
            decay = min(0.8, (1 + averages_made) / (10 + averages_made)) if warmup else 0.8
            slow = decay * slow + (1 - decay) * module[0].weight.detach().double()
    found = ema.state_dict()["averages"]["model"]["0.weight"]
    torch.testing.assert_close(found.double(), slow, rtol=1e-5, atol=1e-5)


def test_swapping_uses_the_average_and_restores_the_exact_bits():
    module = net()
    with torch.no_grad():
        module[0].weight[0, 0] = float("nan")
    ema = Ema({"model": module}, EmaConfig(decay=0.5))
    move(module, 1)
    ema.update()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    bits = before["0.weight"].view(torch.int32).clone()
    averages = ema.state_dict()["averages"]["model"]
    with ema.swapped():
        assert torch.equal(module[0].bias, averages["0.bias"]) and not torch.equal(module[0].bias, before["0.bias"])
        assert torch.equal(module[2].weight, before["2.weight"])
    assert torch.equal(module[0].weight.detach().view(torch.int32), bits)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items() if name != "0.weight")


def test_parameters_are_restored_when_the_stage_fails():
    module = net()
    ema = Ema({"model": module}, EmaConfig())
    move(module, 1)
    before = module[0].weight.clone()
    with pytest.raises(ZeroDivisionError), ema.swapped():
        raise ZeroDivisionError
    assert torch.equal(module[0].weight, before)
    with ema.swapped():
        pass


def test_nested_swaps_and_updates_inside_one_are_refused():
    ema = Ema({"model": net()}, EmaConfig())
    with ema.swapped():
        with pytest.raises(RuntimeError, match="nested"), ema.swapped():
            pass
        with pytest.raises(RuntimeError, match="leave swapped"):
            ema.update()


def test_only_what_is_trained_is_copied_and_buffers_stay_alive():
    module = net()
    ema = Ema({"model": module}, EmaConfig())
    assert set(ema.state_dict()["averages"]["model"]) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    module[1].running_mean.fill_(7.0)
    module[1].num_batches_tracked.fill_(3)
    with ema.swapped():
        assert module[1].running_mean.eq(7.0).all() and module[1].num_batches_tracked == 3
        module[1].num_batches_tracked.fill_(4)
    assert module[1].num_batches_tracked == 4


def test_a_slow_average_of_bfloat16_moves():
    module = net(torch.bfloat16)
    ema = Ema({"model": module}, EmaConfig(decay=0.999))
    start = ema.state_dict()["averages"]["model"]["0.weight"].clone()
    assert start.dtype == torch.float32
    with torch.no_grad():
        module[0].weight.add_(0.5)
    for _ in range(100):
        ema.update()
    moved = ema.state_dict()["averages"]["model"]["0.weight"] - start
    torch.testing.assert_close(moved, torch.full_like(moved, 0.5 * (1 - 0.999**100)), rtol=0.1, atol=0.005)
    before = module[0].weight.clone()
    with ema.swapped():
        assert module[0].weight.dtype == torch.bfloat16
    assert torch.equal(module[0].weight, before)


def test_complex_and_double_parameters_keep_their_precision():
    module = nn.ParameterList([torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.float64)])
    ema = Ema({"model": module}, EmaConfig(decay=0.5))
    with torch.no_grad():
        module[0].add_(2j)
        module[1].add_(1e-12)
    ema.update()
    averages = ema.state_dict()["averages"]["model"]
    assert torch.equal(averages["0"], torch.full((2,), 1 + 1j)) and bool((averages["1"] > 1.0).all())


def test_shared_parameters_are_averaged_once():
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    two.weight = one.weight
    averages = Ema({"one": one, "two": two}, EmaConfig()).state_dict()["averages"]
    assert {name: set(part) for name, part in averages.items()} == {"one": {"weight", "bias"}, "two": {"bias"}}


def test_a_resumed_average_equals_an_uninterrupted_one():
    config = EmaConfig(decay=0.9, every=2, warmup=True)

    def run(stop_at: int | None) -> dict[str, torch.Tensor]:
        module = net()
        ema = config.build({"model": module})
        for update in range(20):
            if update == stop_at:
                file = io.BytesIO()
                torch.save({"ema": ema.state_dict(), "model": module.state_dict()}, file)
                file.seek(0)
                state = torch.load(file, weights_only=True)
                module = net()
                module.load_state_dict(state["model"])
                ema = config.build({"model": module})
                ema.load_state_dict(state["ema"])
            move(module, update)
            ema.update()
        return dict(ema.state_dict()["averages"]["model"])

    whole = run(None)
    for stop_at in (0, 1, 10, 19):
        resumed = run(stop_at)
        assert all(torch.equal(resumed[name], value) for name, value in whole.items())


def test_a_state_that_does_not_fit_is_refused_by_name_and_changes_nothing():
    ema = Ema({"model": nn.Linear(2, 2)}, EmaConfig())
    before = ema.state_dict()["averages"]["model"]["bias"].clone()
    zeros = {"weight": torch.zeros(2, 2), "bias": torch.zeros(2)}
    with pytest.raises(ConfigError, match=r"no average .*model\.bias"):
        ema.load_state_dict({"updates": 1, "averages": {"model": {"weight": zeros["weight"]}}})
    with pytest.raises(ConfigError, match=r"average .*model\.extra"):
        ema.load_state_dict({"updates": 1, "averages": {"model": {**zeros, "extra": torch.zeros(1)}}})
    with pytest.raises(ConfigError, match=r"model\.weight: .*\(2, 2\), found \(3, 2\)"):
        ema.load_state_dict({"updates": 1, "averages": {"model": {**zeros, "weight": torch.zeros(3, 2)}}})
    assert ema.updates == 0 and torch.equal(ema.state_dict()["averages"]["model"]["bias"], before)
