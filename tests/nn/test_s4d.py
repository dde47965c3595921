"""The state-space layer: convolution and recurrence agree, cut anywhere, under any autocast and after any update."""

import math

import pytest
import torch
from torch import Tensor

from solfa.nn import s4d
from solfa.nn.s4d import S4D

D = 5


@pytest.fixture(autouse=True, params=["recurrence in C", "convolution"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no compiler, both are the convolution."""
    if request.param == "convolution":
        monkeypatch.setattr(s4d, "recurrence_for", lambda inputs: None)


def make_layer(tied: bool = True, dtype: torch.dtype = torch.float64) -> S4D:
    layer = S4D(D, 8, tied=tied, dt_min=1e-2, dt_max=0.5).to(dtype)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.1 * torch.randn_like(parameter)  # no two modes alike
    return layer


def stepped(layer: S4D, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    outputs = []
    for row in inputs.unbind(1):
        output, state = layer.step(row, state)
        outputs.append(output)
    assert state is not None
    return torch.stack(outputs, dim=1), state


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("num_steps", [1, 2, 50])
def test_a_sequence_at_once_equals_its_steps(tied: bool, num_steps: int) -> None:
    layer, inputs = make_layer(tied), torch.randn(3, num_steps, D).double()
    outputs, last = layer(inputs, keep_state=True)
    one_by_one, state = stepped(layer, inputs, layer.initial_state(3))
    assert (outputs - one_by_one).abs().max() < 1e-12
    assert (last - state).abs().max() < 1e-12
    assert layer(inputs)[1] is None


def test_a_sequence_may_be_cut_anywhere_and_read_in_either_way() -> None:
    layer, inputs = make_layer(), torch.randn(2, 20, D).double()
    whole, last = layer(inputs, keep_state=True)
    for cut in range(1, 20):
        first, state = layer(inputs[:, :cut], keep_state=True)
        second, end = layer(inputs[:, cut:], state, keep_state=True)
        assert (torch.cat([first, second], dim=1) - whole).abs().max() < 1e-12
        assert (end - last).abs().max() < 1e-12
        assert (stepped(layer, inputs[:, cut:], state)[0] - second).abs().max() < 1e-12


def test_channels_do_not_touch_each_other_and_time_runs_forward() -> None:
    layer, inputs = make_layer(), torch.randn(1, 30, D).double()
    changed = inputs.clone()
    changed[0, 11, 2] += 1
    difference = (layer(changed)[0] - layer(inputs)[0])[0].abs()
    assert difference[:11].max() < 1e-13 and difference[:, [0, 1, 3, 4]].max() < 1e-13
    assert (difference[11:, 2] > 1e-6).all()


def test_steps_use_the_parameters_of_the_moment() -> None:
    layer, inputs = make_layer(), torch.randn(2, 9, D).double()
    state = stepped(layer, inputs)[1]
    for parameter in layer.parameters():
        before = layer.step(inputs[:, 0], state)[0]
        with torch.no_grad():
            parameter.data += 0.1 * torch.randn_like(parameter)  # an update that autograd does not count
        by_convolution = layer(inputs, state)[0]
        assert (stepped(layer, inputs, state)[0] - by_convolution).abs().max() < 1e-12
        assert (before - by_convolution[:, 0]).abs().max() > 1e-6


def test_fixed_parameters_give_the_same_steps_and_are_released_after_a_fault() -> None:
    layer, inputs = make_layer(), torch.randn(2, 9, D).double()
    expected = stepped(layer, inputs)[0]
    with layer.fixed():
        assert layer.system() is layer.system()
        assert torch.equal(stepped(layer, inputs)[0], expected)
    with pytest.raises(KeyError), layer.fixed():
        raise KeyError
    with torch.no_grad():
        layer.dynamics.log_dt += 0.5
    assert not torch.allclose(stepped(layer, inputs)[0], expected)


def test_autocast_leaves_kernel_and_state_alone() -> None:
    layer, inputs = make_layer(dtype=torch.float32), torch.randn(2, 300, D)
    plain, last = layer(inputs, keep_state=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs, state = layer(inputs, keep_state=True)
        with layer.fixed():
            step, next_state = layer.step(inputs[:, 0], state)
    assert outputs.dtype == torch.float32 and state.dtype == next_state.dtype == torch.complex64
    assert torch.equal(outputs, plain) and torch.equal(state, last)
    assert torch.equal(step, layer.step(inputs[:, 0], last)[0])


@pytest.mark.parametrize("num_steps", [1, 40])
def test_inputs_and_parameters_of_half_precision_are_computed_in_float32(num_steps: int) -> None:
    layer = make_layer(dtype=torch.bfloat16)
    inputs = torch.randn(2, num_steps, D).bfloat16()
    outputs, state = layer(inputs, layer.initial_state(2), keep_state=True)
    exact, exact_state = layer.float()(inputs.float(), keep_state=True)
    assert outputs.dtype == torch.bfloat16 and state.dtype == torch.complex64
    assert torch.equal(outputs, exact.bfloat16()) and torch.allclose(state, exact_state)


def test_gradients_in_bfloat16_autocast_are_those_without() -> None:
    layer, inputs = make_layer(dtype=torch.float32), torch.randn(2, 40, D)
    layer(inputs)[0].square().sum().backward()
    plain = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = layer(inputs)[0]
    outputs.square().sum().backward()
    assert all(torch.equal(p.grad, before) for p, before in zip(layer.parameters(), plain, strict=True))


def test_every_parameter_and_the_state_get_gradients() -> None:
    layer, state = make_layer(), make_layer().initial_state(2).requires_grad_()
    for num_steps in (1, 12):
        layer.zero_grad()
        outputs, last = layer(torch.randn(2, num_steps, D).double(), state, keep_state=True)
        (outputs.sum() + last.abs().sum()).backward()
        assert all(parameter.grad.abs().sum() > 0 for parameter in layer.parameters())
        assert state.grad.abs().sum() > 0


def test_the_system_is_stable_whatever_is_learnt() -> None:
    layer = make_layer(dtype=torch.float32)
    with torch.no_grad():
        for parameter in layer.dynamics.parameters():
            parameter += 3 * torch.randn_like(parameter)
    assert (layer.system().decay.abs() <= 1).all()


def test_it_starts_as_s4d_lin_with_steps_over_the_whole_range() -> None:
    layer = S4D(512, 64)
    a = layer.system().log_decay / layer.dynamics.log_dt.exp()[:, None]
    assert torch.allclose(a.real, torch.full((512, 32), -0.5))
    assert torch.allclose(a.imag, (math.pi * torch.arange(32)).expand(512, 32), rtol=1e-5)
    log_dt = layer.dynamics.log_dt.detach()
    assert math.log(1e-3) <= log_dt.min() < math.log(1.1e-3) and math.log(0.9e-1) < log_dt.max() <= math.log(1e-1)
    assert abs(float(log_dt.mean()) - math.log(1e-2)) < 0.3
    assert layer.dynamics.A_imag.shape == (1, 32) and S4D(6, 4, tied=False).dynamics.A_imag.shape == (6, 2)
