"""The clock: the phases of beats and bars by their definition, and nothing where there is no pulse."""

import cmath

import torch

from solfa.nn.beat_clock import TURNS, BeatClock, beat_phases


def test_phases_are_those_of_the_definition() -> None:
    pulses = torch.tensor([[0.013], [0.031]])
    steps = torch.arange(100, 160)
    phases = beat_phases(steps, pulses)
    for row, pulse in enumerate(pulses.flatten().tolist()):
        for at, step in enumerate(steps.tolist()):
            turned = [cmath.exp(2j * cmath.pi * step * pulse * turns) for turns in TURNS]
            wanted = torch.tensor([z.imag for z in turned] + [z.real for z in turned])
            # The angle has up to 2 pi * 160 * 0.031 * 4 = 125 radians, each rounded to 2^-24 of it a few times.
            torch.testing.assert_close(phases[row, at], wanted, rtol=0, atol=4 * 125 * 2**-24)


def test_a_beat_later_the_parts_of_a_beat_are_the_same_and_a_bar_later_the_bar() -> None:
    phases = beat_phases(torch.arange(400), torch.tensor([[1 / 50]]))[0].view(400, 2, len(TURNS))
    for turns, period in ((1.0, 50), (2.0, 25), (1 / 2, 100), (1 / 4, 200), (1 / 3, 150)):
        part = phases[..., TURNS.index(turns)]
        torch.testing.assert_close(part[period:], part[:-period], rtol=0, atol=1e-4)


def test_without_a_pulse_the_clock_says_nothing() -> None:
    clock = BeatClock(6)
    vectors = clock(torch.arange(9), torch.tensor([[0.0], [0.02]]))
    assert vectors[0].eq(0).all() and vectors[1].abs().amax(dim=-1).gt(0).all()
