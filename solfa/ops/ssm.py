"""Diagonal state-space systems with complex modes (S4D, arXiv 2206.11893), as a convolution and as a recurrence.

Every channel has Q modes, each representing itself and its conjugate. With inputs held constant between samples
(zero-order hold), the continuous system x' = A x + B u, y = 2 Re(C x) + D u becomes, with dt the channel's step,

    x_l = decay x_{l-1} + gain u_l          decay = exp(dt A),  gain = (exp(dt A) - 1) / A B
    y_l = 2 Re(C x_l) + D u_l               y_l has seen u_l

so y = kernel * u + D u with kernel_l = 2 Re sum_q C gain decay^l. With l = i F + j each power is a coarse one times a
fine one, decay^(i F) decay^j: about 2 sqrt(S) exponentials per mode and one matrix product instead of S exponentials.

The functions keep the precision of their inputs. Use float32 or more, outside autocast: rounded to bfloat16, a decay of
0.9995 becomes 1, and the recurrence never forgets.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor
from torch.autograd.function import once_differentiable


class System(NamedTuple):
    """A discretised system of D channels."""

    log_decay: Complex[Tensor, "D Q"]
    """dt A: powers are exponentials of its multiples."""
    decay: Complex[Tensor, "D Q"]
    gain: Complex[Tensor, "D Q"]
    readout: Complex[Tensor, "D Q"]
    """C."""
    skip: Float[Tensor, "D"]
    """D, the part of the input that goes straight to the output."""


class Powers(NamedTuple):
    """decay^l for all l below a number of steps, as products of a coarse and a fine power: l = i F + j."""

    coarse: Complex[Tensor, "D I Q"]
    fine: Complex[Tensor, "D F Q"]


def discretise(
    a: Complex[Tensor, "G Q"],
    b: Complex[Tensor, "G Q"],
    c: Complex[Tensor, "D Q"],
    skip: Float[Tensor, "D"],
    dt: Float[Tensor, "D"],
) -> System:
    """Discretise with the input held constant for `dt`; A and B are shared (G = 1) or per channel (G = D)."""
    log_decay = dt[:, None] * a
    # exp(z) - 1 would lose all digits of small steps.
    return System(log_decay, _exp(log_decay.real, log_decay.imag), complex_expm1(log_decay) / a * b, c, skip)


def complex_expm1(z: Complex[Tensor, "*shape"]) -> Complex[Tensor, "*shape"]:
    """Compute exp(z) - 1 with full relative precision of its parts, from real functions that every device has."""
    x, y = z.real, z.imag
    return torch.complex(torch.expm1(x) * y.cos() - 2 * (y / 2).sin().square(), x.exp() * y.sin())


def powers_of(log_decay: Complex[Tensor, "D Q"], num_steps: int) -> Powers:
    """Raise every decay to the powers 0 .. num_steps - 1 (and a few more, if the number does not factorise)."""
    num_fine = 1 << ((num_steps - 1).bit_length() + 1) // 2
    num_coarse = -(-num_steps // num_fine)
    fine = torch.arange(num_fine, device=log_decay.device)
    coarse = torch.arange(num_coarse, device=log_decay.device) * num_fine
    exponents = torch.cat([coarse, fine])[:, None]
    every = _exp(exponents * log_decay.real[:, None], exponents * log_decay.imag[:, None])
    return Powers(every[:, :num_coarse], every[:, num_coarse:])


def _exp(real: Float[Tensor, "*shape"], imag: Float[Tensor, "*shape"]) -> Complex[Tensor, "*shape"]:
    # Seven times faster than torch.exp of a complex tensor on a CPU, which is not vectorised.
    magnitude = real.exp()
    return torch.complex(magnitude * imag.cos(), magnitude * imag.sin())


def sum_modes(
    coefficients: Complex[Tensor, "*B D Q"], powers: Powers, num_steps: int
) -> Float[Tensor, "*B D {num_steps}"]:
    """Compute 2 Re sum_q coefficients decay^l for l = 0 .. num_steps - 1."""
    rows = 2 * coefficients[..., None, :] * powers.coarse
    # Re(r f) = Re r Re f - Im r Im f: a real product of twice the depth, half the work of a complex one.
    product = _interleaved(rows) @ _interleaved(powers.fine.conj()).mT
    return product.flatten(-2)[..., :num_steps]


def _interleaved(z: Complex[Tensor, "*shape Q"]) -> Float[Tensor, "*shape q"]:
    return torch.view_as_real(z.resolve_conj()).flatten(-2)


def kernel_of(system: System, powers: Powers, num_steps: int) -> Float[Tensor, "D {num_steps}"]:
    """Compute the impulse response of the system, without the skip."""
    return sum_modes(system.readout * system.gain, powers, num_steps)


def free_response(
    state: Complex[Tensor, "B D Q"], system: System, powers: Powers, num_steps: int
) -> Float[Tensor, "B D {num_steps}"]:
    """Compute the system's output from a state with no further input."""
    return sum_modes(system.readout * system.decay * state, powers, num_steps)


def last_state(
    inputs: Float[Tensor, "B D S"], system: System, powers: Powers, state: Complex[Tensor, "B D Q"] | None = None
) -> Complex[Tensor, "B D Q"]:
    """Compute the state after all inputs, starting from `state` or zero."""
    num_steps = inputs.shape[-1]
    num_coarse, num_fine = powers.coarse.shape[1], powers.fine.shape[1]
    # The last input has decayed by the power 0: pad before the first, and let powers fall with time.
    filled = F.pad(inputs, (num_coarse * num_fine - num_steps, 0)).view(*inputs.shape[:2], num_coarse, num_fine)
    within = filled @ _interleaved(powers.fine.flip(1))
    within = torch.view_as_complex(within.view(*within.shape[:-1], -1, 2))
    final = system.gain * (within * powers.coarse.flip(1)).sum(-2)
    if state is None:
        return final
    return final + _exp(num_steps * system.log_decay.real, num_steps * system.log_decay.imag) * state


def recur(
    inputs: Float[Tensor, "B D"], system: System, state: Complex[Tensor, "B D Q"] | None = None
) -> tuple[Float[Tensor, "B D"], Complex[Tensor, "B D Q"]]:
    """Take one step of the recurrence: the output and the new state."""
    driven = system.gain * inputs[..., None]
    state = driven if state is None else torch.addcmul(driven, system.decay, state)
    said = (system.readout * state).real.sum(-1)
    return torch.add(system.skip * inputs, said, alpha=2), state


def convolve(inputs: Float[Tensor, "B D S"], kernel: Float[Tensor, "D S"]) -> Float[Tensor, "B D S"]:
    """Convolve each channel with its kernel, causally: output l is a sum over the inputs 0 .. l."""
    result: Tensor = _Convolution.apply(inputs, kernel)  # type: ignore[no-untyped-call]
    return result


class _Convolution(torch.autograd.Function):
    """Convolution by FFT, forward and backward. Autograd alone would use complex transforms of twice the length."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, kernel: Tensor) -> Tensor:
        num_steps = inputs.shape[-1]
        size = fft_size(2 * num_steps - 1)
        spectrum, response = torch.fft.rfft(inputs, size), torch.fft.rfft(kernel, size)
        ctx.save_for_backward(spectrum, response)
        ctx.size, ctx.num_steps = size, num_steps
        return _causal_part(spectrum * response, size, num_steps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        spectrum, response = ctx.saved_tensors
        transformed = torch.fft.rfft(gradient, ctx.size)
        of_inputs, of_kernel = ctx.needs_input_grad
        sizes = ctx.size, ctx.num_steps
        return (
            _causal_part(transformed * response.conj(), *sizes) if of_inputs else None,
            _causal_part((transformed * spectrum.conj()).sum(0), *sizes) if of_kernel else None,
        )


def _causal_part(spectrum: Complex[Tensor, "*B F"], size: int, num_steps: int) -> Float[Tensor, "*B {num_steps}"]:
    signal: Tensor = torch.fft.irfft(spectrum, size)
    return signal[..., :num_steps]


def fft_size(at_least: int) -> int:
    """Find a size with factors 2 and at most one 3 or 5: large prime factors make transforms several times slower."""
    return min(odd << max(0, (-(-at_least // odd) - 1).bit_length()) for odd in (1, 3, 5))
