"""Samplers against closed forms on Gaussians, and against the schedulers of diffusers step by step."""

import math
from itertools import pairwise

import pytest
import torch
from diffusers import DPMSolverMultistepScheduler, FlowMatchEulerDiscreteScheduler, FlowMatchHeunDiscreteScheduler
from diffusers.pipelines.stable_audio_3.pipeline_stable_audio_3 import logsnr_sigma_schedule

from solfa.ops.flow_samplers import SAMPLERS, log_snr_grid, sample, time_grid

ORDERS = {"euler": 1, "heun": 2, "dpm++": 2}


def gaussian_velocity(scale):
    """The exact velocity E[e - x | z] if the data are N(0, scale^2)."""

    def velocity(points, time):
        variance = (1 - time) ** 2 * scale**2 + time**2
        return points * (time - (1 - time) * scale**2) / variance

    return velocity


def bent_velocity(points, time):
    """Some smooth field that is not linear."""
    return torch.sin(points) * (1 + time) - 0.3 * points + 0.1


def no_noise():
    raise AssertionError("this sampler draws no noise")


def start():
    return torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("sampler", ORDERS)
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_flow_of_a_gaussian_is_a_scaling_and_the_error_falls_with_the_order(sampler, scale):
    noise = start()
    # From N(0, 1) at time 1 to N(0, scale^2) at time 0, keeping the order of the points: multiplication by the scale.
    exact = noise * scale
    steps = [64, 128, 256]
    errors = [
        float((sample(gaussian_velocity(scale), noise, time_grid(n), sampler, no_noise) - exact).abs().max())
        for n in steps
    ]
    found = [math.log2(coarse / fine) for coarse, fine in pairwise(errors)]
    assert all(order > ORDERS[sampler] - 0.35 for order in found), (errors, found)


def test_ping_pong_jumps_to_the_mean_of_what_is_possible_and_back():
    generator = torch.Generator().manual_seed(2)

    def new_noise():
        return torch.randn(40_000, 1, 1, generator=generator, dtype=torch.float64)

    scale, times = 0.5, time_grid(6)
    variance = 1.0
    for now, then in pairwise(times):
        mean = (1 - now) * scale**2 / ((1 - now) ** 2 * scale**2 + now**2)
        variance = (1 - then) ** 2 * mean**2 * variance + then**2
    found = sample(gaussian_velocity(scale), new_noise(), times, "ping-pong", new_noise)
    # Five standard errors of a standard deviation.
    assert float(found.std()) == pytest.approx(math.sqrt(variance), rel=5 / math.sqrt(2 * 40_000))


def test_a_grid_goes_from_its_start_to_zero_and_a_shift_keeps_its_ends():
    assert time_grid(4) == [1.0, 0.75, 0.5, 0.25, 0.0]
    grid = time_grid(5, start=0.6, shift=3.0)
    assert grid[0] == pytest.approx(0.6) and grid[-1] == 0
    assert all(later < earlier for earlier, later in pairwise(grid))
    assert all(moved >= even for moved, even in zip(grid, time_grid(5, start=0.6), strict=True))


@pytest.mark.parametrize("start", [1.0, 0.9, 0.3, 0.05])
def test_a_grid_in_log_snr_is_that_of_stable_audio_3_from_noise_and_falls_from_anywhere(start):
    grid = log_snr_grid(8, start)
    assert grid[0] == pytest.approx(start) and grid[-1] == 0 and len(grid) == 9
    assert all(later < earlier for earlier, later in pairwise(grid))
    if start == 1:
        assert grid[:-1] == pytest.approx(logsnr_sigma_schedule(8, -6.2, 2.0), abs=1e-6)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_what_is_known_is_put_in_its_place_at_every_time(sampler):
    seen = []

    def known(points, time):
        seen.append(time)
        points = points.clone()
        points[:, :, :2] = 7.0
        return points

    found = sample(bent_velocity, start(), time_grid(3), sampler, start, known)
    assert seen == time_grid(3) and torch.all(found[:, :, :2] == 7.0)


def follow(scheduler, sigma_of):
    """Run a scheduler of diffusers along `bent_velocity`."""
    points = start().float()
    for step in scheduler.timesteps:
        points = scheduler.step(bent_velocity(points, sigma_of(step)), step, points).prev_sample
    return points


def test_every_solver_takes_the_steps_of_diffusers():
    euler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=1)
    euler.set_timesteps(sigmas=time_grid(7)[:-1])
    heun = FlowMatchHeunDiscreteScheduler()
    heun.set_timesteps(8)
    dpm = DPMSolverMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, final_sigmas_type="zero")
    dpm.set_timesteps(9)
    theirs = {
        "euler": (euler, float),
        "heun": (heun, lambda step: float(step) / 1000),
        "dpm++": (dpm, lambda step: float(dpm.sigmas[dpm.step_index or 0])),
    }
    for sampler, (scheduler, sigma_of) in theirs.items():
        times = list(dict.fromkeys(map(float, scheduler.sigmas)))
        mine = sample(bent_velocity, start(), times, sampler, no_noise)
        assert torch.allclose(mine.float(), follow(scheduler, sigma_of), atol=1e-4), sampler
