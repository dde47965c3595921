"""Diagonal state-space systems: kernel, convolution, state and recurrence are the same system, in both precisions."""

import math

import pytest
import torch
from torch import Tensor

from solfa.ops.ssm import (
    System,
    complex_expm1,
    convolve,
    discretise,
    fft_size,
    free_response,
    kernel_of,
    last_state,
    powers_of,
    recur,
)

D, Q = 6, 5


@pytest.fixture(autouse=True)
def _one_thread_one_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


def make_continuous(groups: int = D, modes: int = Q) -> tuple[Tensor, ...]:
    """A, B, C, D and dt with the range of values that training starts from, and each mode a little different."""
    real, imag = -0.5 * torch.rand(groups, modes).double() - 0.25, math.pi * torch.arange(modes).double()
    a = torch.complex(real, imag.expand(groups, modes))
    b, c = (torch.randn(n, modes, dtype=torch.complex128) for n in (groups, D))
    dt = torch.logspace(-3, -1, D, dtype=torch.float64)
    return a, b, c, torch.randn(D, dtype=torch.float64), dt


def make_system(dtype: torch.dtype = torch.float64, groups: int = D, modes: int = Q) -> System:
    parts = make_continuous(groups, modes)
    return discretise(*(part.to(dtype.to_complex() if part.is_complex() else dtype) for part in parts))


def convolved(inputs: Tensor, system: System, state: Tensor | None = None) -> Tensor:
    steps = inputs.shape[-1]
    powers = powers_of(system.log_decay, steps)
    said = convolve(inputs, kernel_of(system, powers, steps)) + system.skip[:, None] * inputs
    return said if state is None else said + free_response(state, system, powers, steps)


def recurred(inputs: Tensor, system: System, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    outputs = []
    for column in inputs.unbind(-1):
        output, state = recur(column, system, state)
        outputs.append(output)
    assert state is not None
    return torch.stack(outputs, dim=-1), state


def kernel_slowly(system: System, num_steps: int) -> Tensor:
    """The definition: one power of every mode for every step."""
    steps = torch.arange(num_steps)
    modes = system.readout * system.gain
    return 2 * (modes[..., None] * torch.exp(system.log_decay[..., None] * steps)).sum(1).real


def test_zero_order_hold_is_the_solution_of_the_differential_equation() -> None:
    a, b, c, skip, dt = make_continuous()
    system = discretise(a, b, c, skip, dt)
    for channel in range(D):
        for mode in range(Q):
            # d/dt (x, u) = (a x + b u, 0): the exponential of the augmented matrix is the exact step.
            augmented = torch.tensor([[a[channel, mode], b[channel, mode]], [0, 0]], dtype=torch.complex128)
            exact = torch.linalg.matrix_exp(dt[channel] * augmented)
            assert torch.allclose(system.decay[channel, mode], exact[0, 0], rtol=1e-12)
            assert torch.allclose(system.gain[channel, mode], exact[0, 1], rtol=1e-11)


def test_tied_dynamics_are_those_of_every_channel() -> None:
    a, b, c, skip, dt = make_continuous(groups=1)
    tied = discretise(a, b, c, skip, dt)
    untied = discretise(a.repeat(D, 1), b.repeat(D, 1), c, skip, dt)
    assert all(torch.allclose(one, other, rtol=1e-14) for one, other in zip(tied, untied, strict=True))


def test_the_gain_of_a_tiny_step_keeps_its_digits() -> None:
    a, b, c, skip, _ = make_continuous()
    dt = torch.logspace(-8, -3, D, dtype=torch.float64)
    exact = discretise(a, b, c, skip, dt).gain
    single = discretise(*(part.to(torch.complex64) for part in (a, b, c)), skip.float(), dt.float()).gain
    assert ((single - exact).abs() / exact.abs()).max() < 1e-6
    z = dt[:, None] * a
    assert (complex_expm1(z) - torch.expm1(z)).abs().max() < 1e-15


@pytest.mark.parametrize("num_steps", [1, 2, 3, 5, 17, 64, 100, 1000])
def test_the_factorised_kernel_is_the_sum_of_all_powers(num_steps: int) -> None:
    system = make_system()
    kernel = kernel_of(system, powers_of(system.log_decay, num_steps), num_steps)
    assert kernel.shape == (D, num_steps)
    assert (kernel - kernel_slowly(system, num_steps)).abs().max() < 1e-12


def test_the_kernel_is_a_few_exponentials_long_and_exact_in_float32() -> None:
    exact, single = make_system(modes=32), (torch.manual_seed(0), make_system(torch.float32, modes=32))[1]
    powers = powers_of(single.log_decay, 8192)
    assert powers.coarse.shape[1] + powers.fine.shape[1] == 64 + 128
    error = kernel_of(single, powers, 8192) - kernel_slowly(exact, 8192)
    assert error.abs().max() < 1e-5 * kernel_slowly(exact, 8192).abs().max()


@pytest.mark.parametrize("num_steps", [1, 2, 7, 33, 100])
def test_convolution_is_its_definition(num_steps: int) -> None:
    inputs, kernel = torch.randn(3, D, num_steps).double(), torch.randn(D, num_steps).double()
    slow = torch.zeros_like(inputs)
    for step in range(num_steps):
        for past in range(step + 1):
            slow[..., step] += kernel[:, step - past] * inputs[..., past]
    assert torch.allclose(convolve(inputs, kernel), slow, atol=1e-12)


def test_gradients_of_the_convolution_are_right_and_only_those_asked_for() -> None:
    inputs, kernel = torch.randn(2, 3, 7).double().requires_grad_(), torch.randn(3, 7).double().requires_grad_()
    assert torch.autograd.gradcheck(convolve, (inputs, kernel), fast_mode=True)
    assert torch.autograd.gradcheck(convolve, (inputs.detach(), kernel), fast_mode=True)
    assert torch.autograd.gradcheck(convolve, (inputs, kernel.detach()), fast_mode=True)


def test_gradients_of_the_whole_system_are_right() -> None:
    a, b, c, skip, dt = (part.clone().requires_grad_() for part in make_continuous(groups=1, modes=2))
    inputs = torch.randn(2, D, 6).double().requires_grad_()
    state = torch.randn(2, D, 2, dtype=torch.complex128, requires_grad=True)

    def outputs_and_state(*parts: Tensor) -> tuple[Tensor, Tensor]:
        system, (inputs, state) = discretise(*parts[:5]), parts[5:]
        powers = powers_of(system.log_decay, 6)
        return convolved(inputs, system, state), torch.view_as_real(last_state(inputs, system, powers, state))

    assert torch.autograd.gradcheck(outputs_and_state, (a, b, c, skip, dt, inputs, state), fast_mode=True)


@pytest.mark.parametrize("num_steps", [1, 2, 30, 257])
def test_convolution_equals_recurrence(num_steps: int) -> None:
    system, inputs = make_system(), torch.randn(2, D, num_steps).double()
    state = torch.randn(2, D, Q, dtype=torch.complex128)
    for before in (None, state):
        outputs, last = recurred(inputs, system, before)
        assert (convolved(inputs, system, before) - outputs).abs().max() < 1e-12
        powers = powers_of(system.log_decay, num_steps)
        assert (last_state(inputs, system, powers, before) - last).abs().max() < 1e-12


def test_convolution_equals_recurrence_in_float32_over_thousands_of_steps() -> None:
    system, inputs = make_system(torch.float32, groups=1, modes=32), torch.randn(1, D, 4096)
    outputs, last = recurred(inputs, system)
    assert outputs.dtype == torch.float32 and last.dtype == torch.complex64
    assert (convolved(inputs, system) - outputs).abs().max() < 1e-4
    assert (last_state(inputs, system, powers_of(system.log_decay, 4096)) - last).abs().max() < 1e-4


def test_an_output_has_seen_its_own_input() -> None:
    system, impulse = make_system(), torch.zeros(1, D, 3, dtype=torch.float64)
    impulse[..., 0] = 1
    first = 2 * (system.readout * system.gain).sum(-1).real + system.skip
    for outputs in (convolved(impulse, system), recurred(impulse, system)[0]):
        assert torch.allclose(outputs[0, :, 0], first)


@pytest.mark.parametrize("at_least", [1, 2, 3, 6, 7, 999, 16383, 31999])
def test_transforms_are_little_longer_than_needed_and_of_small_factors(at_least: int) -> None:
    size = fft_size(at_least)
    assert at_least <= size < max(1.5 * at_least, at_least + 2)
    odd = size // (size & -size)
    assert odd in (1, 3, 5)
