"""The interface between Python and decoder.c: its structures, field by field, and its functions."""

import ctypes
from pathlib import Path
from typing import final

from solfa.nn.kernels.library import VECTORS, load_library

WIDTH = 64
"""Rows are padded to a multiple of this."""

_SOURCES = tuple(
    Path(__file__).with_name(name) for name in ("decoder.c", "numbers.h", "panels.h", "attention.h", "team.h")
)
_int = ctypes.c_int64
_pointer = ctypes.c_void_p


class Linear(ctypes.Structure):
    """A matrix in panels."""

    _fields_ = (
        *((name, _int) for name in ("format", "width_in", "width_out")),
        *((name, _pointer) for name in ("weights", "scales")),
    )


class Layer(ctypes.Structure):
    """One layer of a decoder."""

    _fields_ = (
        *((name, _pointer) for name in ("self_norm", "cross_norm", "ffn_norm")),
        *((name, Linear) for name in ("qkv", "out", "query", "cross_out", "fc1", "fc2")),
    )


class Decoder(ctypes.Structure):
    """All layers, and the last norm."""

    _fields_ = (
        *((name, _int) for name in ("dim", "padded", "num_heads", "head_dim", "num_layers")),
        ("layers", ctypes.POINTER(Layer)),
        ("norm", _pointer),
    )


class Step(ctypes.Structure):
    """Where a step finds what came before it, and its own memory."""

    _fields_ = (
        *((name, _int) for name in ("num_rows", "position", "max_steps", "num_threads", "num_conditions")),
        *((name, _pointer) for name in ("keys", "key_scales", "values", "value_scales")),
        *((name, _pointer) for name in ("cross_keys", "cross_values", "seen")),
        *((name, _pointer) for name in ("cosine", "sine", "x", "scratch")),
    )


@final
class DecoderKernel:
    """The functions of decoder.c."""

    def __init__(self, library: ctypes.CDLL) -> None:
        linear, decoder, step = (ctypes.POINTER(kind) for kind in (Linear, Decoder, Step))
        self.multiply, self.step = library.solfa_linear, library.solfa_step
        self.multiply_bytes, self.step_bytes = library.solfa_linear_bytes, library.solfa_step_bytes
        self.multiply.argtypes = [linear, _pointer, _pointer, _int, _pointer, _int]
        self.multiply_bytes.argtypes = [linear, _int]
        self.step.argtypes = self.step_bytes.argtypes = [decoder, step]
        self.multiply.restype = self.step.restype = None
        self.multiply_bytes.restype = self.step_bytes.restype = library.solfa_panel.restype = _int
        self.name = Path(library._name).stem
        self.panel: int = library.solfa_panel()
        """How many outputs of a matrix stand side by side."""

    def __deepcopy__(self, memo: object) -> "DecoderKernel":
        return self


def load_decoder() -> DecoderKernel:
    """Compile the kernel, unless that was done before, and load it."""
    return DecoderKernel(load_library("decoder", (*_SOURCES, VECTORS)))


def padded(width: int) -> int:
    """Round a width up."""
    return -(-width // WIDTH) * WIDTH
