"""Schedules follow their slow definitions, at the edges too, and resume to the same learning rates."""

import copy
import json
import math

import pytest
import torch
from torch import nn

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.solvers.optim.optimizer import SGD, OptimConfig, build_optimizer, build_schedule
from solfa.solvers.optim.parameter_groups import ParameterGroup
from solfa.solvers.optim.schedules import Constant, Cosine, InverseSqrt, Linear, Plateau

TOTAL = 20


def rise_slowly(update: int, warmup: int) -> float:
    """The warm-up, one update at a time."""
    ratio = 0.0
    for _ in range(update + 1):
        ratio += 1.0 / warmup
    return ratio


def cosine_slowly(update: int, warmup: int, stop: int, low: float) -> float:
    angle = math.pi * (update - warmup) / (stop - warmup)
    return low + (1 - low) * (math.cos(angle) + 1) / 2


def linear_slowly(update: int, warmup: int, stop: int, low: float) -> float:
    return (stop - update) / (stop - warmup) * 1.0 + (update - warmup) / (stop - warmup) * low


@pytest.mark.parametrize("warmup", [0, 1, 4])
@pytest.mark.parametrize("stop", [None, 12])
@pytest.mark.parametrize(("kind", "slowly"), [(Cosine, cosine_slowly), (Linear, linear_slowly)])
def test_decaying_schedules_follow_their_definition(kind, slowly, warmup, stop):
    schedule = kind(warmup_updates=warmup, min_ratio=0.1, updates=stop)
    end = stop or TOTAL
    for update in range(warmup):
        assert schedule.ratio(update, TOTAL) == pytest.approx(rise_slowly(update, warmup))
    for update in range(warmup, end):
        assert schedule.ratio(update, TOTAL) == pytest.approx(slowly(update, warmup, end, 0.1))
    assert schedule.ratio(warmup, TOTAL) == 1.0
    for update in (end, end + 1, 10 * end):
        assert schedule.ratio(update, TOTAL) == pytest.approx(0.1)


def test_constant_rises_and_stays():
    assert [Constant(warmup_updates=4).ratio(update, 5) for update in (0, 1, 3, 4, 5, 100)] == [0.25, 0.5, 1, 1, 1, 1]
    assert Constant().ratio(0, 1) == 1.0


def test_inverse_square_root_peaks_at_the_end_of_the_warm_up():
    schedule = InverseSqrt(warmup_updates=4)
    assert [schedule.ratio(update, TOTAL) for update in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert schedule.ratio(15, TOTAL) == 0.5 and schedule.ratio(63, TOTAL) == 0.25
    later = [schedule.ratio(update, TOTAL) for update in range(3, 200)]
    assert later == sorted(later, reverse=True)


@pytest.mark.parametrize(("kind", "longest"), [(Cosine, 19), (Linear, 19), (Constant, 20), (Plateau, 20)])
def test_a_warm_up_longer_than_the_run_is_refused_with_the_settings(kind, longest):
    make(kind(warmup_updates=longest))
    values = {"epochs": 2, "updates_per_epoch": 10, "schedule": kind(warmup_updates=longest + 1).model_dump()}
    with pytest.raises(ConfigError, match=rf"schedule\.warmup_updates: .*at most {longest}, found {longest + 1}"):
        parse_config(OptimConfig, values, "run")
    if kind in (Cosine, Linear):
        values["schedule"] = kind(warmup_updates=8, updates=8).model_dump()
        with pytest.raises(ConfigError, match="at most 7, found 8"):
            parse_config(OptimConfig, values, "run")


def make(kind, groups=()):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    config = OptimConfig(epochs=2, updates_per_epoch=10, optimizer=SGD(lr=0.5), schedule=kind, groups=groups)
    optimizer = build_optimizer(net, config)
    return optimizer, build_schedule(optimizer, config)


def test_each_group_keeps_its_own_learning_rate_times_the_ratio():
    optimizer, schedule = make(Cosine(warmup_updates=2), (ParameterGroup(pattern="1.*", lr_scale=0.1),))
    for update in range(25):
        ratio = Cosine(warmup_updates=2).ratio(update, 20)
        assert schedule.ratio == ratio and schedule.lr == 0.5 * ratio
        rates = {group["name"]: group["lr"] for group in optimizer.param_groups}
        assert {name: rates[name] for name in ("default", "1.*")} == {"default": 0.5 * ratio, "1.*": 0.5 * 0.1 * ratio}
        schedule.step()


@pytest.mark.parametrize(
    "kind",
    [
        Constant(warmup_updates=5),
        Cosine(warmup_updates=3, min_ratio=0.1),
        Linear(warmup_updates=3),
        InverseSqrt(warmup_updates=3),
        Plateau(patience=0, factor=0.3, cooldown=1, warmup_updates=5),
    ],
)
@pytest.mark.parametrize("cut", [0, 4, 10, 17])
def test_a_resumed_schedule_sets_the_very_learning_rates_of_an_uninterrupted_one(kind, cut):
    groups = (ParameterGroup(pattern="1.*", lr_scale=0.3),)

    def go(optimizer, schedule, start, stop):
        rates = []
        for update in range(start, stop):
            rates.append([group["lr"] for group in optimizer.param_groups])
            schedule.step()
            if update % 4 == 3:
                schedule.observe({"valid": {"loss": 1.0 if update < 9 else 2.0}})
        return rates

    uninterrupted = go(*make(kind, groups), 0, 20)
    optimizer, schedule = make(kind, groups)
    before = go(optimizer, schedule, 0, cut)
    states = copy.deepcopy(optimizer.state_dict()), json.loads(json.dumps(schedule.state_dict()))
    optimizer, schedule = make(kind, groups)
    optimizer.load_state_dict(states[0])
    schedule.load_state_dict(states[1])
    assert before + go(optimizer, schedule, cut, 20) == uninterrupted


def test_after_a_restored_optimiser_apply_sets_the_rates_of_this_run():
    optimizer, schedule = make(Constant())
    old = optimizer.state_dict()
    for group in old["param_groups"]:
        group["lr"] = 9.0
    optimizer.load_state_dict(old)
    schedule.apply()
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 0.5]


def test_the_state_is_plain_numbers():
    _, schedule = make(Plateau())
    schedule.observe({"valid": {"loss": 3.0}})
    assert schedule.state_dict() == {
        "updates": 0,
        "plateau": {"best": 3.0, "bad_epochs": 0, "cooldown_left": 0, "scale": 1.0},
    }


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize(("patience", "cooldown"), [(0, 0), (1, 0), (2, 3), (0, 1)])
def test_plateau_reduces_when_torch_does(better, patience, cooldown):
    values = [5.0, 4.0, 4.0, 4.5, 3.0, 3.0, 3.1, 3.2, 3.3, 3.0, 2.9, 3.0, 3.0, 3.0, 3.0, math.nan, 3.0, 3.0, 3.0]
    kind = Plateau(better=better, patience=patience, cooldown=cooldown, factor=0.5, min_ratio=0.1)
    _, schedule = make(kind)
    reference = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    torch_schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        reference,
        mode={"lower": "min", "higher": "max"}[better],
        factor=0.5,
        patience=patience,
        cooldown=cooldown,
        threshold=0.0,
        min_lr=0.1,
        eps=0.0,
    )
    ratios = []
    for value in values:
        schedule.observe({"valid": {"loss": value}})
        torch_schedule.step(value)
        ratios.append(schedule.ratio)
        assert schedule.ratio == pytest.approx(reference.param_groups[0]["lr"])
    assert min(ratios) < 1.0


def test_plateau_waits_for_its_stage_and_refuses_a_metric_that_is_not_there():
    _, schedule = make(Plateau(metric="evaluate.distance", patience=0))
    before = schedule.state_dict()
    schedule.observe({"valid": {"loss": 1.0}})
    assert schedule.state_dict() == before
    with pytest.raises(ConfigError, match=r"optim\.schedule\.metric: .*'distance'.*did you mean 'distances'"):
        schedule.observe({"evaluate": {"distances": 1.0}})


def test_other_schedules_ignore_metrics():
    optimizer, schedule = make(Cosine())
    before = schedule.lr
    schedule.observe({"valid": {"loss": 1.0}})
    schedule.observe({"valid": {"loss": 2.0}})
    assert schedule.lr == before == optimizer.param_groups[0]["lr"]
