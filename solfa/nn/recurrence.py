"""State-space layers on CPUs as recurrences in C, forward and backward: no kernel, no transforms, no transposes.

In PyTorch a layer is a convolution by FFT with a kernel that is a matrix product of powers (`solfa.ops.ssm`). On a CPU,
two thirds of that time go into arrays that are read and written only once. Here a block of steps stays in the first
cache, and every mode takes its steps there: 22 multiply-adds for each step, mode and channel, forward and backward.

The system's C compiler builds this on first use. Where there is none, on other devices and under torch.compile, which
cannot look into C, `recurrence_for` finds nothing, and PyTorch does the same work.
"""

import ctypes
import logging
from functools import cache
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from solfa.nn.kernels.library import NoKernelError, load_library

_logger = logging.getLogger(__name__)
_SOURCES = tuple(Path(__file__).with_name("kernels") / name for name in ("recurrence.c", "recurrence.h", "team.h"))
_DTYPES = (torch.float32, torch.float64)


class _Job(ctypes.Structure):
    """What recurrence.c calls Job, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("clips", "steps", "channels", "modes", "blocks")),
        *((name, ctypes.c_void_p) for name in ("inputs", "decay", "drift", "weights", "skip", "gradient")),
        *((name, ctypes.c_void_p) for name in ("outputs", "states", "of_modes", "of_skip", "memory")),
    )


@final
class Recurrence:
    """The functions of recurrence.c."""

    def __init__(self, library: ctypes.CDLL) -> None:
        number = ctypes.c_int64
        self._run, self._memory, self._states = library.run_recurrence, library.memory_bytes, library.states_bytes
        self._run.argtypes, self._run.restype = [ctypes.POINTER(_Job), number, number], None
        self._memory.argtypes, self._memory.restype = [number], number
        self._states.argtypes, self._states.restype = [number] * 4, number
        library.block_steps.restype = number
        self.block: int = library.block_steps()
        """How many steps are computed before the errors of their decays are corrected."""

    def states(self, inputs: Float[Tensor, "B S D"], num_modes: int) -> Tensor:
        """Make room for the states before each block."""
        clips, steps, channels = inputs.shape
        size = clips * self._states(channels, num_modes, -(-steps // self.block), inputs.element_size())
        return torch.empty(size // inputs.element_size(), dtype=inputs.dtype)

    def run(self, inputs: Float[Tensor, "B S D"], num_modes: int, **places: Tensor | None) -> None:
        """Run the forward pass, or the backward pass if there is a `gradient`."""
        clips, steps, channels = inputs.shape
        threads = torch.get_num_threads()
        memory = torch.empty(threads * self._memory(num_modes), dtype=torch.uint8)
        named = {"inputs": inputs, "memory": memory, **places}
        assert all(place is None or place.is_contiguous() for place in named.values())
        found = {name: place.data_ptr() for name, place in named.items() if place is not None}
        job = _Job(clips, steps, channels, num_modes, -(-steps // self.block), **found)
        self._run(job, inputs.element_size(), threads)


@cache
def load_recurrence() -> Recurrence | None:
    """Load the functions, compiled on first use; None where there is no compiler."""
    try:
        return Recurrence(load_library("recurrence", _SOURCES))
    except NoKernelError as reason:
        _logger.info("state-space layers are convolutions in PyTorch: %s", reason)
        return None


def recurrence_for(inputs: Float[Tensor, "B S D"]) -> Recurrence | None:
    """Find the recurrence if it can read these inputs: numbers of a CPU, outside of torch.compile."""
    if inputs.device.type != "cpu" or inputs.dtype not in _DTYPES or torch.compiler.is_compiling():
        return None
    return load_recurrence()


def convolve_modes(
    recurrence: Recurrence,
    inputs: Float[Tensor, "B S D"],
    log_decay: Complex[Tensor, "D Q"],
    weights: Complex[Tensor, "D Q"],
    skip: Float[Tensor, "D"],
) -> Float[Tensor, "B S D"]:
    """Convolve each channel with Re sum_q weights exp(l log_decay), l = 0, 1, ..., and add `skip` times the input."""
    # Asked here: inside of a Function, gradients are always off.
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in (inputs, log_decay, weights, skip))
    outputs: Tensor = _Recurrent.apply(inputs, log_decay, weights, skip, recurrence, learns)  # type: ignore[no-untyped-call]
    return outputs


class _Recurrent(torch.autograd.Function):
    """The recurrence and its gradients in closed form, which recurrence.h derives."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        log_decay: Tensor,
        weights: Tensor,
        skip: Tensor,
        recurrence: Recurrence,
        learns: bool,
    ) -> Tensor:
        inputs, weights, skip = inputs.contiguous(), weights.resolve_conj().contiguous(), skip.contiguous()
        decay, drift = _rounded_decay(log_decay, recurrence.block)
        outputs, num_modes = torch.empty_like(inputs), log_decay.shape[1]
        states = recurrence.states(inputs, num_modes) if learns else None
        system = {"decay": decay, "drift": drift, "weights": weights, "skip": skip}
        recurrence.run(inputs, num_modes, **system, outputs=outputs, states=states)
        ctx.save_for_backward(inputs, decay, drift, weights, skip, states)
        ctx.recurrence = recurrence
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, decay, drift, weights, skip, states = ctx.saved_tensors
        of_inputs, of_modes = torch.empty_like(inputs), inputs.new_empty(len(inputs), *decay.shape, 2, 2)
        of_skip = inputs.new_empty(len(inputs), len(skip))
        system = {"decay": decay, "drift": drift, "weights": weights, "skip": skip, "states": states}
        found = {"outputs": of_inputs, "of_modes": of_modes, "of_skip": of_skip}
        ctx.recurrence.run(inputs, decay.shape[1], **system, gradient=gradient.contiguous(), **found)
        of_weights, of_decay = torch.view_as_complex(of_modes.sum(0)).unbind(-1)
        return of_inputs, (decay * weights * of_decay).conj(), of_weights.conj(), of_skip.sum(0), None, None


def _rounded_decay(
    log_decay: Complex[Tensor, "D Q"], block: int
) -> tuple[Complex[Tensor, "D Q"], Complex[Tensor, "D Q"]]:
    """Compute the decay, and how far its power `block` is from that of the decay before it was rounded."""
    real, imag = log_decay.real.double(), log_decay.imag.double()
    exact = torch.polar(real.exp(), imag)
    rounded = exact.to(log_decay.dtype)
    # To first order: (exact^n - rounded^n) = n rounded^(n-1) (exact - rounded), for an error of one part in 10^7.
    drift = block * (exact - rounded) * torch.polar(((block - 1) * real).exp(), (block - 1) * imag)
    return rounded, drift.to(log_decay.dtype)
