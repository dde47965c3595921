"""Other linear paths: a stable one whose poles stay inside the unit circle, a bounded one that keeps its bound."""

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.waveform_heads.contenders import LINEAR8, LINEAR16, OTHER_INPUTS, Contender, HeadConfig, WaveformModel
from benchmarks.waveform_heads.heads import PathCategoricalHeadConfig
from benchmarks.waveform_heads.paths import (
    BOUND,
    BoundedDmlHeadConfig,
    BoundedPath,
    StableDmlHeadConfig,
    StablePath,
    step_down,
    step_up,
    stepper_of,
)
from benchmarks.waveform_heads.recordings import Recorded, Split
from benchmarks.waveform_heads.training import Settings, own_levels
from solfa.errors import ConfigError
from solfa.models import DmlHeadConfig, SashimiConfig, WaveformSampling, generate_classes, previous_classes
from solfa.models.sashimi.generation import MakeStepper, fastest_stepper
from solfa.models.sashimi.linear_path import LinearPath
from solfa.ops.class_grid import Grid

TINY = SashimiConfig(dim=4, n_layers=1, d_state=4)
OTHERS = [StableDmlHeadConfig(), BoundedDmlHeadConfig()]


def coloured(num_samples: int) -> Tensor:
    """Make noise with two resonances, which is easy to predict."""
    source = np.random.default_rng(0).normal(size=num_samples) * 0.01
    audio = np.zeros(num_samples)
    weights = -np.poly([0.9 * np.exp(0.5j), 0.9 * np.exp(-0.5j), 0.8 * np.exp(2j), 0.8 * np.exp(-2j)]).real
    for step in range(4, num_samples):
        audio[step] = source[step] + weights[1:] @ audio[step - 4 : step][::-1]
    return torch.from_numpy(audio).float()


def model_of(head: HeadConfig, grid: Grid = LINEAR16, turned: float = 0.0) -> WaveformModel:
    """Make a model that is fitted; `turned` is the size of the numbers that its network gives its path."""
    model = WaveformModel(Contender(grid, head), TINY, seed=0)
    model.fit([coloured(3000)])
    generator = torch.Generator().manual_seed(1)
    torch.nn.init.normal_(model.network.projection.weight, std=0.3, generator=generator)
    if model.network.linear_path is not None and turned:
        torch.nn.init.normal_(model.network.linear_path.turns.weight, std=turned, generator=generator)
    return model


def path_of(model: WaveformModel) -> LinearPath:
    assert model.network.linear_path is not None
    return model.network.linear_path


def classes_of(model: WaveformModel, *shape: int) -> Tensor:
    return model.grid.to_classes(coloured(int(np.prod(shape))).view(shape))


def largest_pole(predictor: Tensor) -> float:
    polynomial = np.concatenate([[1.0], -predictor.double().numpy()])
    return float(np.abs(np.roots(polynomial)).max())


def test_a_predictor_of_order_two_is_the_textbooks() -> None:
    first, second = 0.7, -0.4
    predictor = step_up(torch.tensor([first, second], dtype=torch.float64))
    assert predictor.tolist() == pytest.approx([first - second * first, second])


@pytest.mark.parametrize("order", [1, 2, 5, 16])
def test_stepping_down_and_up_again_changes_nothing(order: int) -> None:
    reflections = 1.8 * torch.rand(order, dtype=torch.float64, generator=torch.Generator().manual_seed(order)) - 0.9
    predictor = step_up(reflections)
    assert torch.allclose(step_down(predictor), reflections, atol=1e-9)
    assert torch.allclose(step_up(step_down(predictor)), predictor, rtol=1e-9)
    many = step_up(reflections[:, None, None].expand(-1, 2, 3))
    assert torch.equal(many, predictor[:, None, None].expand(-1, 2, 3))


def test_both_are_run_when_asked_for_by_name() -> None:
    assert {"dml-stable-linear16", "dml-bounded-linear16"} <= {contender.name for contender in OTHER_INPUTS}


@pytest.mark.parametrize("head", OTHERS, ids=lambda head: head.kind)
def test_both_start_as_the_librarys_path_with_the_same_gradients(head: HeadConfig) -> None:
    plain, other = model_of(DmlHeadConfig()), model_of(head)
    for model in (plain, other):
        classes = classes_of(model, 2, 300)
        outputs = model(classes)
        torch.autograd.backward(model.head.loss(outputs, classes) + model.head.penalty(outputs, classes))
    assert torch.allclose(plain(classes), other(classes), atol=1e-6)
    ours, theirs = (path_of(model).turns.weight.grad for model in (other, plain))
    assert ours is not None and theirs is not None and float(theirs.abs().max()) > 0.01
    assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-5)
    counts = [sum(weights.numel() for weights in model.parameters()) for model in (plain, other)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("size", [0.1, 0.3, 1.0])
def test_every_pole_of_a_stable_path_is_inside_the_unit_circle(size: float) -> None:
    path = path_of(model_of(StableDmlHeadConfig()))
    assert isinstance(path, StablePath)
    turns = size * torch.randn(200, path.order, generator=torch.Generator().manual_seed(0))
    assert max(map(largest_pole, step_up(path.reflections(turns)).unbind(1))) < 1
    # The library's path has poles outside with the same numbers.
    plain = path.coefficients + path.error * (turns @ path.whitening)
    assert max(map(largest_pole, plain)) > 1


def test_reflection_coefficients_never_reach_one() -> None:
    path = path_of(model_of(StableDmlHeadConfig()))
    assert isinstance(path, StablePath)
    turns = 1e6 * torch.randn(200, path.order, generator=torch.Generator().manual_seed(0))
    assert 0.99 < float(path.reflections(turns).abs().max()) < 1


@pytest.mark.parametrize("size", [1e-3, 0.1, 10.0, 1e6])
def test_a_bounded_path_never_leaves_its_bound_and_hardly_changes_small_numbers(size: float) -> None:
    path = path_of(model_of(BoundedDmlHeadConfig()))
    assert isinstance(path, BoundedPath)
    turns = size * torch.randn(200, path.order, generator=torch.Generator().manual_seed(0))
    assert float(path.bounded(turns).abs().max()) <= BOUND
    if size < 0.01:
        assert torch.allclose(path.bounded(turns), turns, rtol=1e-4)


@pytest.mark.parametrize("head", OTHERS, ids=lambda head: head.kind)
def test_what_the_network_says_bends_the_predictor(head: HeadConfig) -> None:
    still, turned = model_of(head), model_of(head, turned=1.0)
    classes = classes_of(still, 1, 200)
    means = [model(classes)[..., 10:20].detach() for model in (still, turned, model_of(DmlHeadConfig(), turned=1.0))]
    assert float((means[0] - means[1]).abs().max()) > 0.01
    assert float((means[2] - means[1]).abs().max()) > 0.001


@pytest.mark.parametrize("head", [*OTHERS, PathCategoricalHeadConfig()], ids=lambda head: head.kind)
def test_clips_are_drawn_by_the_path_that_was_trained(head: HeadConfig) -> None:
    model = model_of(head, LINEAR8 if head.kind == "categorical-path" else LINEAR16, turned=1.0).eval()
    prompt = classes_of(model, 2, 100)

    def nats_twice(stepper: MakeStepper) -> tuple[Tensor, Tensor]:
        drawn = generate_classes(
            model.network, model.head, 180, WaveformSampling(), [0, 1], prompt, make_stepper=stepper
        )
        first = model.network.start(2)
        with torch.no_grad():
            read = model.head.log_prob(model.network(previous_classes(drawn.classes, first)), drawn.classes)
        return drawn.log_prob, read[:, 100:].double().sum(dim=1)

    said, read = nats_twice(stepper_of(model.network))
    assert torch.allclose(said, read, atol=0.05)
    said, read = nats_twice(fastest_stepper)
    assert not torch.allclose(said, read, atol=0.5)


def test_the_librarys_networks_are_drawn_by_the_fastest_stepper() -> None:
    for head in (DmlHeadConfig(), DmlHeadConfig(opening_samples=8), DmlHeadConfig(prediction_order=0)):
        assert stepper_of(model_of(head).network) is fastest_stepper


def test_own_draws_in_training_are_refused_because_the_kernel_draws_them() -> None:
    settings = Settings(
        updates=4, num_clips=1, num_samples=256, dim=4, layers=1, d_state=4, lr=4e-3, dynamics_lr=1e-3, free_running=1
    )
    split = Split((Recorded("long", coloured(900)),), (), 16_000)
    with pytest.raises(ConfigError, match="the library's linear path"):
        own_levels(model_of(StableDmlHeadConfig()), 0, 52, settings, split)
