"""A loss takes the share of the step that its weight says, whatever its scale, and however the batch is dealt out."""

import json
import math

import pytest
import torch

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.ops.loss_balance import Balancer, BalancerConfig, clip_norms, gradients_at, loss_of_gradient


def decoder(num_clips: int = 3, seed: int = 0) -> tuple[torch.nn.Linear, torch.Tensor]:
    """A small generator and its output [B, C, N]."""
    torch.manual_seed(seed)
    layer = torch.nn.Linear(5, 16)
    return layer, layer(torch.randn(num_clips, 2, 5))


def two_losses(output: torch.Tensor, scale: float = 1e6) -> dict[str, torch.Tensor]:
    return {"near": (output - 1.0).square().mean(), "far": scale * (output + 0.3).abs().pow(1.5).mean()}


def size(gradient: torch.Tensor) -> float:
    """The sum of the norms of the clips, one element at a time."""
    return sum(math.sqrt(sum(float(value) ** 2 for value in clip.flatten())) for clip in gradient)


@pytest.mark.parametrize("total_norm", [1.0, 0.25])
@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e7])
def test_a_single_loss_gives_a_gradient_of_the_total_norm(total_norm, scale):
    balancer = Balancer({"one": 3.0}, total_norm=total_norm)
    _, output = decoder(num_clips=1)
    gradient = balancer.balance({"one": scale * output.square().mean()}, output).gradient
    assert gradient.norm().item() == pytest.approx(total_norm, rel=1e-4)
    _, output = decoder(num_clips=4)
    gradient = Balancer({"one": 3.0}, total_norm=total_norm).balance({"one": scale * output.sum()}, output).gradient
    assert size(gradient) == pytest.approx(total_norm, rel=1e-4)


@pytest.mark.parametrize("weights", [{"left": 1.0, "right": 1.0}, {"left": 3.0, "right": 0.5}])
def test_losses_of_different_scale_contribute_in_the_ratio_of_their_weights(weights):
    _, output = decoder()
    # Each loss hears one channel, so that its part of the step can be measured apart.
    losses = {"left": 1e-4 * output[:, 0].square().mean(), "right": 1e6 * (output[:, 1] - 2.0).abs().mean()}
    gradient = Balancer(weights).balance(losses, output).gradient
    left, right = size(gradient[:, 0]), size(gradient[:, 1])
    assert left / right == pytest.approx(weights["left"] / weights["right"], rel=1e-4)
    assert left + right == pytest.approx(1.0, rel=1e-4)


def test_many_steps_equal_the_slow_definition():
    weights, decay, total_norm = {"near": 2.0, "far": 0.5}, 0.9, 0.7
    balancer = Balancer(weights, ema_decay=decay, total_norm=total_norm)
    seen: dict[str, list[float]] = {"near": [], "far": []}
    for step in range(6):
        _, output = decoder(seed=step)
        raw = {name: torch.autograd.grad(loss, output)[0] for name, loss in two_losses(output, 10.0**step).items()}
        balanced = balancer.balance(two_losses(output, 10.0**step), output)
        expected = torch.zeros_like(output)
        for name, gradient in raw.items():
            seen[name].append(size(gradient))
            ages = [decay ** (len(seen[name]) - 1 - index) for index in range(len(seen[name]))]
            mean = sum(a * norm for a, norm in zip(ages, seen[name], strict=True)) / sum(ages)
            assert balanced.norms[name] == pytest.approx(mean, rel=1e-5)
            expected += total_norm * weights[name] / 2.5 * gradient / mean
        torch.testing.assert_close(balanced.gradient, expected, rtol=1e-4, atol=1e-6)


def test_without_rescaling_it_is_the_gradient_of_the_weighted_sum():
    _, output = decoder()
    balanced = Balancer({"near": 2.0, "far": 0.5}, rescale=False).balance(two_losses(output, 3.0), output)
    losses = two_losses(output, 3.0)
    (expected,) = torch.autograd.grad(2.0 * losses["near"] + 0.5 * losses["far"], output)
    torch.testing.assert_close(balanced.gradient, expected)


def test_a_batch_dealt_to_two_processes_gives_the_step_of_the_whole_batch():
    _, output = decoder(num_clips=4)
    whole = Balancer({"near": 2.0, "far": 1.0}).balance(two_losses(output), output).gradient
    halves = [output[:2].detach().requires_grad_(), output[2:].detach().requires_grad_()]
    norms = [
        torch.stack([clip_norms(g).sum() for g in gradients_at(half, two_losses(half)).values()]) for half in halves
    ]
    shared = torch.stack(norms).mean(dim=0)
    parts = [
        Balancer({"near": 2.0, "far": 1.0}, average=lambda own: shared).balance(two_losses(half), half).gradient
        for half in halves
    ]
    # Processes average their gradients, so each half counts by half.
    torch.testing.assert_close(torch.cat(parts) / 2, whole, rtol=1e-4, atol=1e-8)


def test_a_restored_balancer_goes_on_exactly():
    first = Balancer({"near": 2.0, "far": 1.0}, ema_decay=0.99)
    for step in range(5):
        _, output = decoder(seed=step)
        first.balance(two_losses(output), output)
    second = Balancer({"near": 2.0, "far": 1.0}, ema_decay=0.99)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.state_dict() == first.state_dict()
    _, output = decoder(seed=9)
    one, other = (balancer.balance(two_losses(output), output) for balancer in (first, second))
    assert torch.equal(one.gradient, other.gradient) and one.norms == other.norms
    assert second.state_dict() == first.state_dict()


def test_a_state_that_was_taken_does_not_change_with_later_steps():
    balancer = Balancer({"near": 1.0, "far": 1.0})
    _, output = decoder()
    balancer.balance(two_losses(output), output)
    state = balancer.state_dict()
    before = json.dumps(state)
    balancer.balance(two_losses(output, 3.0), output)
    assert json.dumps(state) == before


def test_no_graph_is_kept_and_the_generator_can_still_be_reached():
    layer, output = decoder()
    losses = {"one": (shared := output.square()).mean(), "two": shared.abs().sqrt().sum()}
    balanced = Balancer({"one": 1.0, "two": 1.0}).balance(losses, output)
    assert not balanced.gradient.requires_grad and balanced.gradient.grad_fn is None
    assert layer.weight.grad is None
    with pytest.raises(RuntimeError, match="second time"):
        losses["two"].backward()
    output.backward(balanced.gradient)
    assert layer.weight.grad is not None and layer.weight.grad.abs().sum() > 0


def test_a_loss_made_of_the_gradient_moves_the_generator_like_the_gradient():
    layer, output = decoder()
    gradient = torch.randn_like(output)
    (direct,) = torch.autograd.grad(output, layer.weight, gradient, retain_graph=True)
    (2.0 * loss_of_gradient(output, gradient)).backward()
    torch.testing.assert_close(layer.weight.grad, 2.0 * direct)


def test_only_the_losses_of_a_step_share_it():
    _, output = decoder(num_clips=1)
    balancer = Balancer({"near": 1.0, "far": 3.0, "never": 0.0})
    gradient = balancer.balance({"near": two_losses(output)["near"], "never": output.sum()}, output).gradient
    assert gradient.norm().item() == pytest.approx(1.0, rel=1e-4)
    assert set(balancer.balance(two_losses(output), output).norms) == {"near", "far"}


def test_a_loss_without_gradient_adds_nothing_and_breaks_nothing():
    _, output = decoder(num_clips=1)
    balancer = Balancer({"none": 1.0, "some": 1.0})
    gradient = balancer.balance({"none": (0.0 * output).sum(), "some": output.square().sum()}, output).gradient
    assert gradient.norm().item() == pytest.approx(0.5, rel=1e-4)


@pytest.mark.parametrize("broken", [math.inf, math.nan])
def test_what_is_not_finite_is_passed_on_and_not_remembered(broken):
    _, output = decoder()
    balancer = Balancer({"one": 1.0})
    balancer.balance({"one": output.square().mean()}, output)
    state = balancer.state_dict()
    balanced = balancer.balance({"one": (output * broken).sum()}, output)
    assert not torch.isfinite(loss_of_gradient(output, balanced.gradient))
    assert balancer.state_dict() == state
    first = Balancer({"one": 1.0})
    assert not torch.isfinite(first.balance({"one": (output * broken).sum()}, output).gradient).any()
    assert first.state_dict() == {"sums": {}, "counts": {}}


def test_wrong_losses_are_named():
    layer, output = decoder()
    balancer = Balancer({"mel": 1.0, "time": 1.0})
    with pytest.raises(ValueError, match=r"'mell', .*mel, time, did you mean 'mel'"):
        balancer.balance({"mell": output.sum()}, output)
    with pytest.raises(ValueError, match=r"'mel' .*depend on the output"):
        balancer.balance({"mel": torch.zeros(())}, output)
    with pytest.raises(ValueError, match=r"'mel' .*depend on the output"):
        balancer.balance({"mel": layer.weight.sum()}, output)
    with pytest.raises(ValueError, match="found no loss"):
        balancer.balance({}, output)
    with pytest.raises(ValueError, match="'mel', found -1"):
        Balancer({"mel": -1.0})


def test_the_config_builds_what_it_says():
    config = parse_config(BalancerConfig, {"total_norm": 0.5, "ema_decay": 0.0}, "balancer")
    balancer = config.build({"one": 2.0})
    assert (balancer.weights, balancer.total_norm, balancer.ema_decay) == ({"one": 2.0}, 0.5, 0.0)
    _, output = decoder(num_clips=1)
    for scale in (1.0, 50.0):
        gradient = balancer.balance({"one": scale * output.square().sum()}, output).gradient
        assert gradient.norm().item() == pytest.approx(0.5, rel=1e-4)
    with pytest.raises(ConfigError, match="ema_decay"):
        parse_config(BalancerConfig, {"ema_decay": 1.5}, "balancer")
