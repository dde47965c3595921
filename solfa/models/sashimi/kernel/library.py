"""The C kernel of SaShiMi: which sources it is compiled from, and its functions."""

import ctypes
from pathlib import Path

from solfa.models.sashimi.kernel.structures import Network
from solfa.nn.kernels.library import VECTORS, load_library

_SOURCES = tuple(Path(__file__).with_name(name) for name in ("network.c", "linear.h", "path.h", "ssm.h", "draw.h"))


def load_kernel() -> ctypes.CDLL:
    """Compile the kernel, unless that was done before, and load it."""
    library = load_library("sashimi", (*_SOURCES, VECTORS))
    pointer = ctypes.c_void_p
    library.solfa_begin.argtypes = [ctypes.POINTER(Network)]
    library.solfa_read.argtypes = [ctypes.POINTER(Network), pointer, pointer]
    library.solfa_run.argtypes = [
        *(ctypes.POINTER(Network), pointer, ctypes.c_int64, pointer, pointer, ctypes.c_double, pointer, pointer)
    ]
    library.solfa_begin.restype = library.solfa_read.restype = library.solfa_run.restype = None
    return library
