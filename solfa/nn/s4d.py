"""A state-space layer: every channel has its own diagonal linear system (S4D, arXiv 2206.11893).

A whole sequence is computed by convolution, a single step by recurrence; both can start from a state and return the
next one, so that a sequence can be cut anywhere. On a CPU with a C compiler, a whole sequence is a recurrence, too, in
a compiled loop (`solfa.nn.recurrence`). Kernel, transforms and state are at least float32, whatever autocast or the
dtype of inputs and parameters: CPUs have no half-precision transforms, and a decay near 1 cannot be rounded.

The parameters of the dynamics (A, B and dt) are under `dynamics`, where one pattern matches them: they train best with
a smaller learning rate (`{pattern: "*.dynamics.*", lr_scale: 0.25}`) and no weight decay.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn

from solfa.nn.recurrence import convolve_modes, recurrence_for
from solfa.ops.ssm import System, convolve, discretise, free_response, kernel_of, last_state, powers_of, recur

State = Complex[Tensor, "B D Q"]


class Dynamics(nn.Module):
    """A, B and the step dt of each channel; A and B are tied (shared by all channels) or per channel.

    Initialised as S4D-Lin: A = -1/2 + i pi q, B = 1, and steps spread evenly over a logarithmic range.
    """

    def __init__(self, dim: int, num_modes: int, tied: bool, dt_min: float, dt_max: float) -> None:
        super().__init__()
        shape = (1 if tied else dim, num_modes)
        self.log_A_real = nn.Parameter(torch.full(shape, math.log(0.5)))
        """log(-Re A): the system is stable whatever it learns."""
        self.A_imag = nn.Parameter(math.pi * torch.arange(num_modes, dtype=torch.float32).repeat(shape[0], 1))
        self.B = nn.Parameter(torch.view_as_real(torch.ones(shape, dtype=torch.complex64)))
        self.log_dt = nn.Parameter(torch.empty(dim).uniform_(math.log(dt_min), math.log(dt_max)))
        for parameter in self.parameters():
            parameter._no_weight_decay = True  # type: ignore[attr-defined]


class S4D(nn.Module):
    """y = kernel * u + D u, per channel.

    >>> import torch
    >>> from solfa.nn import S4D
    >>> layer, inputs = S4D(dim=8, num_states=4), torch.randn(1, 20, 8)  # [B, S, D]
    >>> whole, _ = layer(inputs)
    >>> first, state = layer(inputs[:, :12], keep_state=True)
    >>> rest, _ = layer(inputs[:, 12:], state)
    >>> torch.allclose(torch.cat([first, rest], dim=1), whole, atol=1e-4)
    True
    """

    def __init__(
        self, dim: int, num_states: int = 64, *, tied: bool = True, dt_min: float = 1e-3, dt_max: float = 1e-1
    ) -> None:
        super().__init__()
        assert num_states % 2 == 0, "states are conjugate pairs"
        self.dim, self.num_modes = dim, num_states // 2
        self.dynamics = Dynamics(dim, self.num_modes, tied, dt_min, dt_max)
        # Stored as real numbers: fused optimisers and `.bfloat16()` do not support complex parameters.
        self.C = nn.Parameter(torch.view_as_real(torch.randn(dim, self.num_modes, dtype=torch.complex64)))
        self.D = nn.Parameter(torch.randn(dim))
        self._fixed: System | None = None

    def forward(
        self, inputs: Float[Tensor, "B S D"], state: State | None = None, keep_state: bool = False
    ) -> tuple[Float[Tensor, "B S D"], State | None]:
        """Process S steps starting from `state` (None for silence); return the new state only if asked to keep it."""
        with torch.autocast(inputs.device.type, enabled=False):
            exact, system = _at_least_float32(inputs), self.system()
            if inputs.shape[1] == 1:
                output, last = recur(exact[:, 0], system, state)
                return output[:, None].to(inputs.dtype), last if keep_state else None
            outputs, kept = _convolved(exact, system, state, keep_state)
            return outputs.to(inputs.dtype), kept

    def step(self, inputs: Float[Tensor, "B D"], state: State | None) -> tuple[Float[Tensor, "B D"], State]:
        """Process one step by recurrence."""
        outputs, last = self(inputs[:, None], state, keep_state=True)
        return outputs[:, 0], last

    def initial_state(self, batch_size: int) -> Complex[Tensor, "B D Q"]:
        """Return the state after silence."""
        shape = (batch_size, self.dim, self.num_modes)
        return torch.zeros(shape, device=self.D.device, dtype=_at_least_float32(self.D).dtype.to_complex())

    def system(self) -> System:
        """Discretise the current parameters."""
        if self._fixed is not None:
            return self._fixed
        dynamics, exact = self.dynamics, _at_least_float32
        a = torch.complex(-exact(dynamics.log_A_real).exp(), exact(dynamics.A_imag))
        b, c = torch.view_as_complex(exact(dynamics.B)), torch.view_as_complex(exact(self.C))
        return discretise(a, b, c, exact(self.D), exact(dynamics.log_dt).exp())

    @contextmanager
    def fixed(self) -> Iterator[None]:
        """Discretise once for all calls inside the context, where parameters must not change."""
        with torch.autocast(self.D.device.type, enabled=False):
            system = self.system()
        self._fixed = system
        try:
            yield
        finally:
            self._fixed = None


def _convolved(
    inputs: Float[Tensor, "B S D"], system: System, state: State | None, keep_state: bool
) -> tuple[Float[Tensor, "B S D"], State | None]:
    num_steps, recurrence = inputs.shape[1], recurrence_for(inputs)
    if recurrence is not None:
        output = convolve_modes(recurrence, inputs, system.log_decay, 2 * system.readout * system.gain, system.skip)
        if state is None and not keep_state:
            return output, None
    powers = powers_of(system.log_decay, num_steps)
    if recurrence is None:
        heard = convolve(inputs.mT, kernel_of(system, powers, num_steps))
        output = torch.addcmul(heard, system.skip[:, None], inputs.mT).mT
    if state is not None:
        output = output + free_response(state, system, powers, num_steps).mT
    return output, last_state(inputs.mT, system, powers, state) if keep_state else None


def _at_least_float32(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    return x.to(torch.promote_types(x.dtype, torch.float32))
