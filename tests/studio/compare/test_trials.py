"""The order of a listening test follows from its seed alone, and favours nobody."""

from hypothesis import given
from hypothesis import strategies as st

from solfa.studio.compare.trials import STIMULI, Kind, plan_trials

NAMES = [f"clip{index}" for index in range(9)]


@given(st.integers(0, 2**40), st.integers(1, 12), st.sampled_from(["pair", "rating"]), st.permutations(NAMES))
def test_every_trial_is_a_clip_of_its_own_in_an_order_of_what_there_is(
    seed: int, num: int, kind: Kind, names: list[str]
) -> None:
    trials = plan_trials(names, kind, seed, num)
    assert len({trial.name for trial in trials}) == len(trials) == min(num, len(NAMES))
    assert all(sorted(trial.order) == sorted(STIMULI[kind]) for trial in trials)
    assert trials == plan_trials(NAMES, kind, seed, num)  # in whatever order the names come


def test_each_side_comes_first_as_often_as_the_other() -> None:
    orders = [trial.order[0] for seed in range(500) for trial in plan_trials(NAMES, "pair", seed, 4)]
    # 2000 fair coins: the standard deviation is 22, and the seeds are fixed.
    assert abs(orders.count("a") - 1000) < 5 * 22.4
    firsts = {plan_trials(NAMES, "pair", seed, 1)[0].name for seed in range(200)}
    assert firsts == set(NAMES)
