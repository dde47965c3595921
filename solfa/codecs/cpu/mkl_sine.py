"""PyTorch's sine with the same bits in a quarter of the time, on processors that are not Intel's.

MKL, which computes `torch.sin` on CPUs, takes its oldest code there. Its code for AVX2 and for AVX-512 is in the same
library, under names that are not documented. It is used if it is there and gives the same bits, which is tried once per
machine and version, in a process of its own that may crash. (With torch 2.13, both were equal for each of the 2.3
thousand million numbers up to `LIMIT`, and for a few above 7,400 they were not.)
"""

import ctypes
import logging
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeAlias

import torch
from jaxtyping import Float32
from torch import Tensor

from solfa.nn.kernels.machine_memory import finding_file, recall, remember

_logger = logging.getLogger(__name__)

Sine: TypeAlias = Callable[[int, int, int], None]
"""Of so many numbers at an address, none beyond `LIMIT`, to another address or to the same."""

LIMIT = 4096.0
_NAMES = {"AVX512": "mkl_vml_kernel_sSin_Z0HAynn", "AVX2": "mkl_vml_kernel_sSin_L9HAynn"}
_TRIAL = "from solfa.codecs.cpu.mkl_sine import has_equal_bits; raise SystemExit(0 if has_equal_bits({name!r}) else 3)"
_CRASHES = [-number for name in ("SIGILL", "SIGSEGV", "SIGBUS", "SIGFPE") if (number := getattr(signal, name, 0))]
_VERDICTS = {0: True, 3: False, **dict.fromkeys(_CRASHES, False)}
"""By how a trial ends; in other ways it ends for other reasons, and says nothing."""


@cache
def find_sine() -> Sine | None:
    """Find code with the bits of PyTorch's sine, by trying or from memory; None if there is none."""
    name = _NAMES.get(torch.backends.cpu.get_cpu_capability())
    sine = None if name is None else load_sine(name)
    if name is None or sine is None:
        return None
    path = finding_file("sine", name, LIMIT)
    found = recall(path)
    if found is None:
        verdict = _try(name)
        if verdict is None:
            return None
        found = remember(path, {"name": name, "has_equal_bits": verdict})
    return sine if found.get("has_equal_bits") is True else None


def load_sine(name: str) -> Sine | None:
    """Look a function up in PyTorch's library; None if it is not there."""
    library = Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"
    function = getattr(ctypes.CDLL(str(library)), name, None) if library.exists() else None
    if function is not None:
        function.restype, function.argtypes = None, [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    return function


def _try(name: str) -> bool | None:
    command = [sys.executable, "-P", "-c", _TRIAL.format(name=name)]
    # In a session of its own, so that Ctrl-C does not end it.
    trial = subprocess.run(command, capture_output=True, check=False, start_new_session=True)
    verdict = _VERDICTS.get(trial.returncode)
    _logger.info("%s %s", name, "has the bits of PyTorch's sine" if verdict else f"is not used ({trial.returncode})")
    return verdict


def has_equal_bits(name: str) -> bool:
    """Compare a function with PyTorch's sine, in place, too, and see that it writes nothing behind its numbers."""
    sine = load_sine(name)
    numbers = trial_numbers()
    return sine is not None and all(
        _is_equal_for(sine, numbers[:length]) for length in (*range(1, 70), 1000, 4095, len(numbers))
    )


def _is_equal_for(sine: Sine, numbers: Float32[Tensor, "n"]) -> bool:
    length, beyond = len(numbers), 64
    expected = numbers.sin().view(torch.int32)
    apart, in_place = torch.full((length + beyond,), LIMIT), torch.cat([numbers, torch.full((beyond,), LIMIT)])
    sine(length, numbers.data_ptr(), apart.data_ptr())
    sine(length, in_place.data_ptr(), in_place.data_ptr())
    return all(
        torch.equal(out[:length].view(torch.int32), expected) and bool((out[length:] == LIMIT).all())
        for out in (apart, in_place)
    )


def trial_numbers() -> Float32[Tensor, "n"]:
    """Draw numbers as codecs have them, and numbers of all sizes, both signs and zeros among them."""
    generator = torch.Generator().manual_seed(0)
    usual = 8 * torch.randn(1 << 20, generator=generator)
    bits = torch.randint(-(1 << 31), 1 << 31, (1 << 21,), generator=generator).to(torch.int32).view(torch.float32)
    return torch.cat([torch.zeros(3), -torch.zeros(3), usual, bits[bits.abs() <= LIMIT]])
