"""Drawn clips: as probable as the network says, the same in blocks, batches and with prompts."""

import pytest
import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models.sashimi import generation as sashimi_generation
from solfa.models.sashimi.generation import (
    EagerStepper,
    GeneratedClasses,
    MakeStepper,
    WaveformSampling,
    fastest_stepper,
    generate_classes,
)
from solfa.models.sashimi.heads import CategoricalHead, DmlHead, OutputHead
from solfa.models.sashimi.network import Sashimi, SashimiConfig, previous_classes

V = 16
HEADS = pytest.mark.parametrize("head", [CategoricalHead(V), DmlHead(V, 3)], ids=["categorical", "dml"])


def make_model(head: OutputHead, dtype: torch.dtype = torch.float64) -> Sashimi:
    """Make a network; in float64, what is drawn does not hang on how clips that are drawn together are rounded."""
    torch.manual_seed(0)
    config = SashimiConfig(num_classes=V, dim=8, n_layers=1, d_state=4, pool=(2, 3), dt_min=0.05, dt_max=0.5)
    return Sashimi(config, head.num_parameters).to(dtype)


def draw(
    head: OutputHead,
    num_samples: int,
    seeds: list[int],
    prompt: Tensor | None = None,
    temperature: float = 1.0,
    make_stepper: MakeStepper = EagerStepper,
    dtype: torch.dtype = torch.float64,
) -> GeneratedClasses:
    model, settings = make_model(head, dtype), WaveformSampling(temperature=temperature)
    return generate_classes(model, head, num_samples, settings, seeds, prompt, make_stepper=make_stepper)


@torch.no_grad()
def nats_by_forward(head: OutputHead, classes: Tensor, num_known: int) -> Tensor:
    model = make_model(head)
    outputs = model(previous_classes(classes, model.start(len(classes))))
    return head.log_prob(outputs, classes)[:, num_known:].double().sum(1)


@HEADS
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("num_known", [0, 13])
def test_the_log_probability_is_that_of_the_network_at_temperature_one(
    head: OutputHead, temperature: float, num_known: int
) -> None:
    prompt = torch.randint(0, V, (2, num_known), generator=torch.Generator().manual_seed(5))
    drawn = draw(head, 40, [3, 4], prompt, temperature)
    assert torch.equal(drawn.classes[:, :num_known], prompt)
    assert torch.allclose(drawn.log_prob, nats_by_forward(head, drawn.classes, num_known), atol=1e-4, rtol=0)


@HEADS
@torch.no_grad()
def test_at_temperature_zero_every_class_is_the_most_probable(head: OutputHead) -> None:
    drawn = draw(head, 30, [0], temperature=0.0)
    model = make_model(head)
    outputs = model(previous_classes(drawn.classes, model.start(1)))
    assert torch.equal(drawn.classes, head.pmf(outputs).argmax(-1))


def test_draws_follow_the_probabilities() -> None:
    head = CategoricalHead(V)
    drawn = draw(head, 1, list(range(4000)))
    model = make_model(head)
    with torch.no_grad():
        expected = head.pmf(model(model.start(1)[:, None]))[0, 0] * 4000
    found = drawn.classes.flatten().bincount(minlength=V)
    assert ((found - expected).square() / expected).sum() < 45  # chi-square of 15: one in 10,000 is above 44


@HEADS
def test_a_clip_depends_on_its_seed_alone(head: OutputHead, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sashimi_generation, "BLOCK", 8)
    together = draw(head, 30, [7, 8, 9]).classes
    assert torch.equal(draw(head, 30, [8]).classes[0], together[1])
    assert torch.equal(draw(head, 13, [8]).classes[0], together[1, :13])
    assert not torch.equal(together[0], together[1])


def test_blocks_are_handed_over_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sashimi_generation, "BLOCK", 8)
    monkeypatch.setattr(sashimi_generation, "_PROMPT_PIECE", 2)
    head, heard = CategoricalHead(V), []
    prompt = torch.randint(0, V, (2, 5))
    drawn = generate_classes(
        make_model(head),
        head,
        25,
        WaveformSampling(),
        [1, 2],
        prompt,
        lambda block, done, total: heard.append((block, done, total)),
    )
    assert [(done, total) for _, done, total in heard] == [(5, 25), (13, 25), (21, 25), (25, 25)]
    assert torch.equal(torch.cat([block for block, _, _ in heard], dim=1), drawn.classes)
    assert torch.allclose(drawn.log_prob, nats_by_forward(head, drawn.classes, 5), atol=1e-4, rtol=0)


@HEADS
@pytest.mark.parametrize("num_known", [0, 1, 13])
def test_the_fastest_way_draws_the_same(head: OutputHead, num_known: int) -> None:
    prompt = torch.randint(0, V, (8, num_known), generator=torch.Generator().manual_seed(5))
    ways = (EagerStepper, fastest_stepper)
    # The kernel computes in float32.
    eager, fastest = (draw(head, 40, list(range(8)), prompt, 0.9, way, torch.float32) for way in ways)
    same = (eager.classes == fastest.classes).all(dim=1)
    # A number within rounding of the border of two classes may fall to either, and then the clips part ways. With an
    # error of 1e-6 that befalls one clip in a thousand, so two of eight would be no rounding.
    assert same.sum() >= 7
    assert torch.allclose(fastest.log_prob[same], eager.log_prob[same], atol=1e-4, rtol=0)


def test_a_model_in_training_is_left_in_training() -> None:
    head = CategoricalHead(V)
    model = make_model(head).train()
    generate_classes(model, head, 3, WaveformSampling(), [1])
    assert all(module.training for module in model.modules())
    outputs = model(torch.zeros(1, 3, dtype=torch.int64))
    head.loss(outputs, torch.zeros(1, 3, dtype=torch.int64)).backward()


def test_what_cannot_be_generated_gets_a_sentence() -> None:
    head = CategoricalHead(V)
    with pytest.raises(ConfigError, match=r"seed and one sample, found 0 and 5"):
        draw(head, 5, [])
    with pytest.raises(ConfigError, match=r"at most 5 samples, found \[1, 6\]"):
        draw(head, 5, [1], torch.zeros(1, 6, dtype=torch.int64))
    with pytest.raises(ConfigError, match="classes from 0 to 15, found 0 to 16"):
        draw(head, 5, [1], torch.tensor([[0, 16]]))
