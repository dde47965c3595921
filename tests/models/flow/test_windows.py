"""Long clips: windows cover them, nothing is drawn twice, and across a seam frames belong together as elsewhere."""

from itertools import pairwise

import pytest
import torch

from solfa.models.flow.generation import Start
from solfa.models.flow.windows import Window, draw_in_windows, plan_windows
from solfa.ops.flow_samplers import sample, time_grid

SIZE, OVERLAP, FRAMES = 6, 2, 13


@pytest.mark.parametrize("num_frames", [1, 6, 7, 10, 11, 13, 40])
def test_windows_cover_a_clip_in_order_and_share_at_least_the_overlap(num_frames):
    windows = plan_windows(num_frames, SIZE, OVERLAP)
    assert windows[0].start == 0 and windows[-1].stop == num_frames
    assert all(stop - start == min(SIZE, num_frames) for start, stop in windows)
    for before, after in pairwise(windows):
        assert before.start < after.start <= before.stop - OVERLAP


def test_what_is_known_is_given_to_every_window_and_whole_windows_of_it_are_left_out():
    calls = []

    def draw(window, within):
        calls.append((window, within.given_mask[0].tolist()))
        drawn = torch.full((1, 1, window.stop - window.start), float(len(calls)))
        return drawn if within.given is None else torch.where(within.given_mask[:, None], within.given, drawn)

    given, mask = torch.zeros(1, 1, FRAMES), torch.zeros(1, FRAMES, dtype=torch.bool)
    given[..., :8], mask[..., :8] = 9.0, True
    found = draw_in_windows(draw, plan_windows(FRAMES, SIZE, OVERLAP), Start(given=given, given_mask=mask), given)
    assert [window for window, _ in calls] == [Window(4, 10), Window(7, 13)], "the first one is all known"
    assert calls[0][1] == [True] * 4 + [False] * 2 and calls[1][1] == [True] * 3 + [False] * 3
    assert found[0, 0].tolist() == [9.0] * 8 + [1.0] * 2 + [2.0] * 3


def gaussian(covariance, known, given, points, time):
    """Return E[e - x] of a Gaussian process, given its noised frames and some that are known exactly."""
    size = len(covariance)
    kept = known.nonzero()[:, 0]
    rest = (~known).nonzero()[:, 0]
    # What is observed: the known frames, and (1 - t) x + t e of the others.
    reading = torch.eye(size, dtype=covariance.dtype)
    reading[rest, rest] = 1 - time
    noise = torch.zeros(size, size, dtype=covariance.dtype)
    noise[rest, rest] = time**2
    noise[kept, kept] = 1e-12
    observed = points.clone()
    observed[..., kept] = given[..., kept]
    gain = covariance @ reading.T @ torch.linalg.inv(reading @ covariance @ reading.T + noise)
    data = observed @ gain.T
    return (points - data) / time


def test_neighbours_on_both_sides_of_a_seam_are_as_close_as_the_process_says():
    count, closeness = 4000, 0.9
    places = torch.arange(FRAMES)
    covariance = closeness ** (places[:, None] - places).abs().double()
    generator = torch.Generator().manual_seed(0)

    def draw(window, within):
        size = window.stop - window.start
        part = covariance[:size, :size]  # it is stationary
        known = torch.zeros(size, dtype=torch.bool) if within.given is None else within.given_mask[0]
        given = torch.zeros(count, 1, size).double() if within.given is None else within.given
        noise = torch.randn(count, 1, size, generator=generator, dtype=torch.float64)

        def velocity(points, time):
            return gaussian(part, known, given, points, time)

        def put(points, time):
            return torch.where(known, (1 - time) * given + time * noise, points)

        return sample(velocity, noise, time_grid(48), "heun", lambda: noise, put)

    like = torch.zeros(count, 1, FRAMES).double()
    clips = draw_in_windows(draw, plan_windows(FRAMES, SIZE, OVERLAP), Start(), like)[:, 0]
    found = torch.corrcoef(clips.T)
    # Five standard errors of a correlation, and as much for the steps of the sampler.
    bound = 2 * 5 * (1 - closeness**2) / count**0.5
    neighbours = found.diagonal(1)
    assert torch.allclose(neighbours, torch.full_like(neighbours, closeness), atol=bound), neighbours
    assert torch.allclose(clips.std(dim=0), torch.ones(FRAMES).double(), atol=5 / (2 * count) ** 0.5 + 0.02)
