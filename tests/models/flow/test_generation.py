"""Drawing latents: by seed alone, with given frames kept exactly, and from a clip by strength."""

import pytest
import torch

from solfa.models.flow.generation import FlowSampling, Start, draw_latents
from tests.models.flow.tiny_flow import KINDS, tiny_network

FRAMES = 7
CLOSE = 1e-4
"""A batch of another size rounds differently, in float32 and through several steps."""


def told(network, rows, seconds):
    conditions = network.told(network.conditioners(network.conditioners.tokenize(rows)), seconds)
    return conditions, network.told(network.conditioners.null(len(rows)), seconds)


@pytest.fixture(scope="module", params=KINDS)
def network(request):
    network = tiny_network(request.param).float()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.3)
        network.mean += torch.arange(4.0)[:, None]
        network.std *= 2
    return network.eval()


def draw(network, seeds, texts=("a", "b", "c"), start=Start(), **settings):  # noqa: B008
    rows = [{"text": text} for text in texts][: len(seeds)]
    conditions = told(network, rows, torch.tensor([[0.0, 2.0]] * len(rows)))
    return draw_latents(network, *conditions, FRAMES, seeds, FlowSampling(**{"steps": 4, **settings}), start)


@pytest.mark.parametrize("sampler", ["euler", "heun", "dpm++", "ping-pong"])
def test_a_clip_depends_on_its_seed_and_not_on_its_neighbours(network, sampler):
    settings = {"sampler": sampler, "guidance_scale": 2.0, "guidance_rescale": 0.5}
    together = draw(network, [5, 6, 7], **settings)
    alone = draw(network, [6], texts=["b"], **settings)
    assert torch.allclose(together[1:2], alone, atol=CLOSE)
    assert not torch.allclose(together[0], draw(network, [8], texts=["a"], **settings)[0], atol=1e-2)


def test_guidance_of_one_or_outside_its_interval_changes_nothing_and_elsewhere_it_does(network):
    plain = draw(network, [1])
    assert torch.equal(draw(network, [1], guidance_scale=1.0, guidance_rescale=0.7), plain)
    assert torch.equal(draw(network, [1], guidance_scale=4.0, guidance_from=0.1, guidance_to=0.05), plain)
    assert not torch.equal(draw(network, [1], guidance_scale=4.0), plain)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["a", "a b"], ids=["as long as nothing", "longer than nothing"])
def test_guidance_leads_away_from_what_is_drawn_without_conditions(kind, text):
    network = tiny_network(kind).float().eval()
    given, absent = told(network, [{"text": text}], torch.tensor([[0.0, 2.0]]))

    def one_step(towards, away, scale):
        return draw_latents(network, towards, away, FRAMES, [1], FlowSampling(steps=1, guidance_scale=scale))

    plain, without = one_step(given, absent, 1.0), one_step(absent, absent, 1.0)
    wanted = without + 3 * (plain - without)  # a step of Euler is linear in the velocity
    size = float(wanted.abs().max())
    assert not torch.allclose(wanted, plain, atol=10 * CLOSE * size)
    assert torch.allclose(one_step(given, absent, 3.0), wanted, atol=CLOSE * size)


@pytest.mark.parametrize("sampler", ["euler", "heun", "dpm++", "ping-pong"])
def test_given_frames_come_out_as_they_are(network, sampler):
    latents = torch.randn(1, FRAMES, 4, generator=torch.Generator().manual_seed(3))
    mask = torch.tensor([[True, True, False, False, False, True, True]])
    given = network.normalised(latents)
    found = draw(network, [1], start=Start(given=given, given_mask=mask), sampler=sampler)
    assert torch.equal(found[mask], network.restored(given)[mask])
    assert not torch.allclose(found[~mask], latents[~mask], atol=1e-2)


def test_strength_leads_from_the_clip_itself_to_a_clip_of_its_own(network):
    latents = torch.randn(1, FRAMES, 4, generator=torch.Generator().manual_seed(3)) + 1
    init = network.normalised(latents)
    found = {
        strength: draw(network, [1], start=Start(init=init, strength=strength), steps=8)
        for strength in (0.0, 0.2, 0.9, 1.0)
    }
    assert torch.equal(found[0.0], network.restored(init))
    distances = [float((one - latents).square().mean()) for one in found.values()]
    assert distances == sorted(distances)
    assert torch.allclose(found[1.0], draw(network, [1], steps=8), atol=CLOSE)


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="guidance_to"):
        FlowSampling(guidance_from=0.2, guidance_to=0.5)
    with pytest.raises(ValueError, match="sampler"):
        FlowSampling.model_validate({"sampler": "eular"})
