"""Products of ggml, called through ctypes; `ggml_products.py` starts this where ggml's libraries are.

    python ggml_library.py FOLDER LIBRARIES 24 1 2 32     # reads lines such as "4 2 plain", prints CPU seconds

FOLDER holds `weight.npy` and `rows.npy`, of which a product takes the first 1, 2 or 32. LIBRARIES is the name of an
installed package, or a folder, with libggml-base and one or more libggml-cpu, of which ggml's own score chooses. The
weights are quantised once for each number of bits and stand in memory 24 times, in every layout that the library has
for them: rows as they were quantised, and what its extra buffer types make of them. The first line that is printed says
what was found; by then the results of each number of rows are in FOLDER, for example `4-2-plain.npy`. One thread.
"""

import ctypes
import json
import sys
import time
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

TYPES = {8: 8, 4: 2}
"""Of q8_0 and q4_0, in the enumeration of ggml.h."""
FLOAT32 = 0
INSTRUCTIONS = ("avx2", "avx_vnni", "avx512", "avx512_vnni", "amx_int8", "neon", "dotprod", "matmul_int8")

Array = np.ndarray[Any, np.dtype[np.float32]]


class InitParams(ctypes.Structure):
    """What a context is made with."""

    _fields_ = (("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool))


LOG = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
NO_LOG = LOG(lambda level, text, data: None)
SIGNATURES: dict[str, tuple[Any, Sequence[Any]]] = {
    "ggml_version": (c_char_p, ()),
    "ggml_log_set": (None, (LOG, c_void_p)),
    "ggml_init": (c_void_p, (InitParams,)),
    "ggml_new_tensor_2d": (c_void_p, (c_void_p, c_int, c_int64, c_int64)),
    "ggml_mul_mat": (c_void_p, (c_void_p, c_void_p, c_void_p)),
    "ggml_new_graph": (c_void_p, (c_void_p,)),
    "ggml_build_forward_expand": (None, (c_void_p, c_void_p)),
    "ggml_nbytes": (c_size_t, (c_void_p,)),
    "ggml_quantize_chunk": (c_size_t, (c_int, c_void_p, c_void_p, c_int64, c_int64, c_int64, POINTER(c_float))),
    "ggml_backend_cpu_buffer_type": (c_void_p, ()),
    "ggml_backend_buft_name": (c_char_p, (c_void_p,)),
    "ggml_backend_alloc_ctx_tensors_from_buft": (c_void_p, (c_void_p, c_void_p)),
    "ggml_backend_buffer_free": (None, (c_void_p,)),
    "ggml_backend_tensor_set": (None, (c_void_p, c_void_p, c_size_t, c_size_t)),
    "ggml_backend_tensor_get": (None, (c_void_p, c_void_p, c_size_t, c_size_t)),
    "ggml_backend_reg_dev_get": (c_void_p, (c_void_p, c_size_t)),
    "ggml_backend_reg_get_proc_address": (c_void_p, (c_void_p, c_char_p)),
    "ggml_backend_dev_supports_op": (c_bool, (c_void_p, c_void_p)),
    "ggml_backend_graph_compute": (c_int, (c_void_p, c_void_p)),
    "ggml_backend_cpu_reg": (c_void_p, ()),
    "ggml_backend_cpu_init": (c_void_p, ()),
    "ggml_backend_cpu_set_n_threads": (None, (c_void_p, c_int)),
}


class Library:
    """The functions of ggml, which stand in two libraries, and one thread of its CPU backend."""

    def __init__(self, folder: Path) -> None:
        bases, kinds = (sorted(folder.rglob(f"libggml-{part}*")) for part in ("base", "cpu"))
        if not bases or not kinds:
            sys.exit(f"{folder}: expected libggml-base and libggml-cpu, found {[path.name for path in bases + kinds]}")
        base = ctypes.CDLL(str(bases[0]), ctypes.RTLD_GLOBAL)
        self.cpu = max((ctypes.CDLL(str(path)) for path in kinds), key=_score)
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(self.cpu if "_backend_cpu_" in name and hasattr(self.cpu, name) else base, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name.removeprefix("ggml_"), function)
        self.log_set(NO_LOG, None)  # or it tells of every matrix that it stores in another order
        self.backend = self.backend_cpu_init()
        self.backend_cpu_set_n_threads(self.backend, 1)
        self.device = self.backend_reg_dev_get(self.backend_cpu_reg(), 0)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"ggml_{name} is not among the functions that this script knows")

    def instructions(self) -> list[str]:
        return [name for name in INSTRUCTIONS if getattr(self.cpu, f"ggml_cpu_has_{name}")()]

    def context(self) -> int:
        """Make a place for the descriptions of tensors and graphs; their memory comes from buffers."""
        return int(self.init(InitParams(1 << 20, None, True)))

    def layouts(self) -> dict[str, int]:
        """Return the plain buffer type and the extra ones, by which ggml stores weights in another order."""
        found = {"plain": int(self.backend_cpu_buffer_type())}
        address = self.backend_reg_get_proc_address(self.backend_cpu_reg(), b"ggml_backend_dev_get_extra_bufts")
        if address:
            extra = ctypes.CFUNCTYPE(POINTER(c_void_p), c_void_p)(address)(self.device)
            for buffer_type in iter(iter(extra).__next__, None):
                name = self.backend_buft_name(buffer_type).decode().removeprefix("CPU_").lower()
                found[name] = buffer_type
        return found


def _score(library: ctypes.CDLL) -> int:
    """Ask a library how well it suits this processor; where there is one only, it is not built to be asked."""
    return int(library.ggml_backend_score()) if hasattr(library, "ggml_backend_score") else 0


def products(
    ggml: Library, bits: int, buffer_type: int, weight: Array, rows: Sequence[Array], num_matrices: int
) -> dict[int, tuple[Callable[[], float], Array]] | None:
    """For each number of rows, give what measures the products, and a result; None if the layout is not for them."""
    weights, (num_out, num_in) = ggml.context(), weight.shape
    matrices = [ggml.new_tensor_2d(weights, TYPES[bits], num_in, num_out) for _ in range(num_matrices)]
    buffer = ggml.backend_alloc_ctx_tensors_from_buft(weights, buffer_type)
    found: dict[int, tuple[Callable[[], float], Array]] = {}
    for given in rows:
        num_rows, context = len(given), ggml.context()
        x = ggml.new_tensor_2d(context, FLOAT32, num_in, num_rows)
        made = [ggml.mul_mat(context, matrix, x) for matrix in matrices]
        ggml.backend_alloc_ctx_tensors_from_buft(context, ggml.backend_cpu_buffer_type())
        if not ggml.backend_dev_supports_op(ggml.device, made[0]):
            ggml.backend_buffer_free(buffer)
            return None
        if not found:
            quantised = ctypes.create_string_buffer(ggml.nbytes(matrices[0]))
            ggml.quantize_chunk(TYPES[bits], weight.ctypes.data, quantised, 0, num_out, num_in, None)
            for matrix in matrices:
                ggml.backend_tensor_set(matrix, quantised, 0, len(quantised))
        ggml.backend_tensor_set(x, given.ctypes.data, 0, ggml.nbytes(x))
        graph = ggml.new_graph(context)
        for tensor in made:
            ggml.build_forward_expand(graph, tensor)

        def measure(graph: int = graph) -> float:
            start = time.process_time()
            if ggml.backend_graph_compute(ggml.backend, graph) != 0:
                raise RuntimeError("ggml could not compute the graph")
            return time.process_time() - start

        measure()
        result = np.empty((num_rows, num_out), np.float32)
        ggml.backend_tensor_get(made[-1], result.ctypes.data, 0, result.nbytes)
        found[num_rows] = measure, result
    return found


def main(folder: Path, libraries: str, num_matrices: int, nums_rows: Sequence[int]) -> None:
    spec = None if Path(libraries).is_dir() else find_spec(libraries)
    ggml = Library(Path(libraries) if spec is None else Path(str(spec.origin)).parent)
    weight, all_rows = np.load(folder / "weight.npy"), np.load(folder / "rows.npy")
    rows = [np.ascontiguousarray(all_rows[:num]) for num in nums_rows]
    work: dict[str, Callable[[], float]] = {}
    for bits in TYPES:
        for layout, buffer_type in ggml.layouts().items():
            made = products(ggml, bits, buffer_type, weight, rows, num_matrices) or {}
            for num_rows, (measure, result) in made.items():
                name = f"{bits} {num_rows} {layout}"
                work[name] = measure
                np.save(folder / f"{name.replace(' ', '-')}.npy", result)
    hello = {"version": ggml.version().decode(), "instructions": ggml.instructions(), "work": list(work)}
    print(json.dumps(hello), flush=True)
    for line in sys.stdin:
        print(work[line.strip()](), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), [int(number) for number in sys.argv[4:]])
