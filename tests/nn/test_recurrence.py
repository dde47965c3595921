"""The recurrence in C is the convolution that it replaces, with the same gradients, whatever the shapes."""

import math
import platform

import pytest
import torch
from torch import Tensor

from solfa.nn import recurrence as module
from solfa.nn import s4d
from solfa.nn.kernels.library import NoKernelError, load_library
from solfa.nn.recurrence import Recurrence, convolve_modes, load_recurrence, recurrence_for
from solfa.nn.s4d import S4D

EPSILON = 2.0**-24
"""The largest relative error of rounding to float32."""


@pytest.fixture
def recurrence() -> Recurrence:
    loaded = load_recurrence()
    if loaded is None:
        pytest.skip("there is no C compiler")
    return loaded


def make_system(dim: int, modes: int, smallest_step: float = 1e-2) -> tuple[Tensor, Tensor, Tensor]:
    """log decay, weights and skip, in float64; no two modes alike."""
    dt = torch.logspace(math.log10(smallest_step), -0.5, dim, dtype=torch.float64)
    a = torch.complex(-0.5 - torch.rand(modes).double(), math.pi * torch.arange(modes).double() + 0.3)
    return dt[:, None] * a, torch.randn(dim, modes, dtype=torch.complex128), torch.randn(dim).double()


def convolve_slowly(inputs: Tensor, log_decay: Tensor, weights: Tensor, skip: Tensor) -> Tensor:
    """The definition: a sum over all steps before each."""
    steps = torch.arange(inputs.shape[1])
    kernel = (weights[..., None] * torch.exp(log_decay[..., None] * steps)).sum(1).real
    outputs = skip * inputs
    for step in steps:
        outputs[:, step] += (inputs[:, : step + 1].flip(1) * kernel[:, : step + 1].T).sum(1)
    return outputs


@pytest.mark.parametrize("num_steps", [1, 2, 31, 32, 33, 100])
@pytest.mark.parametrize(("dim", "modes"), [(1, 1), (7, 3), (8, 4), (19, 5)])
def test_it_is_the_definition(recurrence: Recurrence, dim: int, modes: int, num_steps: int) -> None:
    system, inputs = make_system(dim, modes), torch.randn(3, num_steps, dim).double()
    expected = convolve_slowly(inputs, *system)
    assert (convolve_modes(recurrence, inputs, *system) - expected).abs().max() < 1e-12
    single = [part.to(torch.complex64 if part.is_complex() else torch.float32) for part in (inputs, *system)]
    assert (convolve_modes(recurrence, *single) - expected).abs().max() < 1e-4


@pytest.mark.parametrize("num_steps", [1, 32, 71])
def test_its_gradients_are_right(recurrence: Recurrence, num_steps: int) -> None:
    parts = [part.requires_grad_() for part in (torch.randn(2, num_steps, 3).double(), *make_system(3, 3))]
    assert torch.autograd.gradcheck(lambda *parts: convolve_modes(recurrence, *parts), parts, fast_mode=True)
    assert torch.autograd.gradcheck(lambda part: convolve_modes(recurrence, part, *parts[1:]), parts[:1])


def test_its_gradients_are_those_of_the_convolution_in_float32(recurrence: Recurrence) -> None:
    """Both have errors of rounding, of the same size beside float64."""
    exact = [torch.randn(2, 3000, 20).double(), *make_system(20, 16, 1e-3), torch.randn(2, 3000, 20).double()]
    errors = []
    for function in (lambda *parts: convolve_modes(recurrence, *parts), convolve_in_torch):
        found = {}
        for dtype in (torch.float64, torch.float32):
            *parts, gradient = (part.to(dtype.to_complex() if part.is_complex() else dtype) for part in exact)
            parts = [part.detach().requires_grad_() for part in parts]
            outputs = function(*parts)
            outputs.backward(gradient)
            found[dtype] = [outputs.detach(), *(part.grad for part in parts)]
        errors.append([(x - y).abs().max() / x.abs().max() for x, y in zip(*found.values(), strict=True)])
    assert all(ours < max(2 * theirs, 50 * EPSILON) for ours, theirs in zip(*errors, strict=True))


def convolve_in_torch(inputs: Tensor, log_decay: Tensor, weights: Tensor, skip: Tensor) -> Tensor:
    system = s4d.System(log_decay, log_decay.exp(), torch.ones_like(weights), weights / 2, skip)
    powers = s4d.powers_of(log_decay, inputs.shape[1])
    return s4d.convolve(inputs.mT, s4d.kernel_of(system, powers, inputs.shape[1])).mT + skip * inputs


def test_a_rounded_decay_does_not_turn_further_with_every_block(
    recurrence: Recurrence, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Roundings of single steps are a random walk, but a decay that is wrong is wrong in the same direction always."""
    num_steps, dim = 8192, 64
    log_decay = torch.complex(torch.full((dim, 1), -1e-5), torch.linspace(0.01, 1, dim)[:, None])
    impulse, weights, skip = torch.zeros(1, num_steps, dim), torch.ones(dim, 1, dtype=torch.complex64), torch.zeros(dim)
    impulse[:, 0] = 1
    exact = torch.exp(log_decay.to(torch.complex128).T * torch.arange(num_steps)[:, None]).real

    def error() -> float:
        return float((convolve_modes(recurrence, impulse, log_decay, weights, skip) - exact).abs().max())

    corrected, correct = error(), module._rounded_decay
    monkeypatch.setattr(module, "_rounded_decay", lambda *given: (correct(*given)[0], torch.zeros_like(log_decay)))
    assert corrected < 4 * math.sqrt(4 * num_steps) * EPSILON  # four roundings a step, four deviations
    assert error() > 4 * corrected


def test_neither_threads_nor_other_clips_change_a_bit(recurrence: Recurrence) -> None:
    system, inputs = make_system(37, 5), torch.randn(3, 70, 37).double().requires_grad_()
    found = []
    for threads in (1, 2, 5):
        torch.set_num_threads(threads)
        inputs.grad = None
        parts = [part.detach().requires_grad_() for part in system]
        outputs = convolve_modes(recurrence, inputs, *parts)
        outputs.square().sum().backward()
        found.append([outputs, inputs.grad, *(part.grad for part in parts)])
    torch.set_num_threads(1)
    assert all(torch.equal(x, y) for other in found[1:] for x, y in zip(found[0], other, strict=True))
    assert torch.equal(convolve_modes(recurrence, inputs[1:2], *system), found[0][0][1:2])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="these options are for x86")
@pytest.mark.parametrize("options", ["-mno-avx512f", "-mno-avx"])
def test_narrower_vectors_give_the_same(recurrence: Recurrence, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"cc {options}")
    try:
        narrow = Recurrence(load_library("recurrence", module._SOURCES))
    except NoKernelError as reason:
        pytest.skip(str(reason))
    found = []
    for one in (recurrence, narrow):
        torch.manual_seed(0)
        parts = [part.requires_grad_() for part in (torch.randn(2, 70, 19).double(), *make_system(19, 5))]
        outputs = convolve_modes(one, *parts)
        outputs.square().sum().backward()
        found.append([outputs, *(part.grad for part in parts)])
    assert all((x - y).abs().max() < 1e-11 * x.abs().max() for x, y in zip(*found, strict=True))


def test_layers_have_the_gradients_of_the_convolution(recurrence: Recurrence, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, inputs = S4D(9, 8).double(), torch.randn(2, 50, 9).double()
    state = torch.randn(2, 9, 4, dtype=torch.complex128)
    found = []
    for way in (recurrence_for, lambda inputs: None):
        monkeypatch.setattr(s4d, "recurrence_for", way)
        for before in (None, state):
            layer.zero_grad()
            outputs, last = layer(inputs, before, keep_state=True)
            (outputs.square().sum() + last.abs().sum()).backward()
            found.append([outputs, last, *(parameter.grad.clone() for parameter in layer.parameters())])
    for ours, theirs in zip(found[:2], found[2:], strict=True):
        assert all((x - y).abs().max() < 1e-11 * (1 + y.abs().max()) for x, y in zip(ours, theirs, strict=True))


def test_without_a_compiler_or_on_other_numbers_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert recurrence_for(torch.zeros(1, 2, 3, dtype=torch.bfloat16)) is None
    assert recurrence_for(torch.zeros(1, 2, 3, device="meta")) is None
    monkeypatch.setenv("CC", "no-such-compiler")
    assert load_recurrence.__wrapped__() is None
