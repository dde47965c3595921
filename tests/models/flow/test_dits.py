"""The transformers are those of diffusers, and what is padded changes nothing."""

import pytest
import torch
from diffusers import StableAudio3DiTModel

from tests.models.flow.tiny_flow import KINDS, tiny_network

NUM_FRAMES, PADDED = 9, 14
ROWS = [{"text": "a warm piano", "bpm": 120.0}, {"text": "drums"}]
SECONDS = torch.tensor([[0.0, 12.0], [3.5, 5.0]], dtype=torch.float64)
# Normalising and turning by positions are done in float32, whatever the rest is.
CLOSE = {"stable_audio_3": 2e-6, "stable_audio_open": 1e-11}


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def predict(network, points, times, rows=ROWS, seconds=SECONDS, mask=None, known=None):
    with torch.no_grad():
        return network(points, times, network.conditioners.tokenize(rows), seconds, mask, known)


@pytest.mark.parametrize("differential", [True, False])
def test_stable_audio_3_is_that_of_diffusers(differential):
    network = tiny_network(differential=differential, timing=("seconds_total",))
    points, times, known = (
        drawn(2, 4, NUM_FRAMES),
        torch.tensor([0.2, 0.9], dtype=torch.float64),
        drawn(2, 5, NUM_FRAMES),
    )
    ours = network.dit.dit
    theirs = StableAudio3DiTModel(**{name: value for name, value in ours.config.items() if name[0] != "_"}).double()
    theirs.load_state_dict(ours.state_dict())
    rows, seconds = [{"text": "one two"}, {"text": "three four"}], SECONDS[:, 1:]
    conditions = network.told(network.conditioners(network.conditioners.tokenize(rows)), seconds)
    context, mask = conditions.whole_context()
    assert mask.all()
    overall = conditions.timing[:, 0] + conditions.summed
    with torch.no_grad():
        expected = theirs(points, times, context, overall, local_add_cond=known, return_dict=False)[0]
    assert torch.equal(predict(network, points, times, rows, seconds, known=known), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_padded_clip_gives_what_it_gives_alone(kind):
    network = tiny_network(kind)
    points, times = drawn(2, 4, NUM_FRAMES), torch.tensor([0.3, 0.7], dtype=torch.float64)
    padded = torch.cat([points, 5 * drawn(2, 4, PADDED - NUM_FRAMES, seed=1)], dim=2)
    mask = torch.zeros(2, PADDED, dtype=torch.bool)
    mask[:, :NUM_FRAMES] = True
    together = predict(network, padded, times, mask=mask)[:, :, :NUM_FRAMES]
    for row in range(2):
        one = slice(row, row + 1)
        alone = predict(network, points[one], times[one], ROWS[one], SECONDS[one])
        assert torch.allclose(together[one], alone, atol=CLOSE[kind], rtol=CLOSE[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_without_frames_gives_numbers(kind):
    found = predict(
        tiny_network(kind), drawn(2, 4, 3), torch.ones(2).double(), mask=torch.zeros(2, 3, dtype=torch.bool)
    )
    assert torch.isfinite(found).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["text", "bpm", "seconds_start", "seconds_total", "time", "frame"])
def test_everything_that_is_told_is_heard(kind, change):
    network = tiny_network(kind)
    points, times = drawn(1, 4, NUM_FRAMES), torch.tensor([0.4], dtype=torch.float64)
    row, seconds = dict(ROWS[0]), SECONDS[:1].clone()
    before = predict(network, points, times, [row], seconds)
    if change in row:
        row[change] = {"text": "a cold piano", "bpm": 60.0}[change]
    elif change == "time":
        times = times + 0.1
    elif change == "frame":
        points = points.clone()
        points[0, 0, 0] += 1
    else:
        seconds[0, ["seconds_start", "seconds_total"].index(change)] += 2
    after = predict(network, points, times, [row], seconds)
    assert (before - after).abs().amax(dim=(0, 1)).min() > 1e-6, "in every frame"


@pytest.mark.parametrize("kind", KINDS)
def test_without_any_condition_there_are_numbers(kind):
    network = tiny_network(kind, timing=())
    found = predict(network, drawn(2, 4, 3), torch.ones(2).double(), [{}, {}], torch.zeros(2, 0))
    assert torch.isfinite(found).all()
