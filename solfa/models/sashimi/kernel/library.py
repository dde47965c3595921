"""Load the C kernel, compiled on first use for this machine and kept in the user's cache folder.

The library's name is a digest of the source, the options and everything the compiler says about itself and the
processor, so that machines that share a home folder, or another compiler or version, never load each other's code.
"""

import ctypes
import hashlib
import logging
import os
import shlex
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from solfa.models.sashimi.kernel.structures import Network

_logger = logging.getLogger(__name__)

_FOLDER = Path(__file__).parent
_SOURCES = ("network.c", "vectors.h", "linear.h", "path.h", "ssm.h", "draw.h")
# Not -ffast-math: it may reorder sums and assumes there are no infinities. Contraction only fuses multiply-adds.
_OPTIONS = ("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
_NATIVE: tuple[tuple[str, ...], ...] = (("-march=native",), ("-mcpu=native",), ())
"""How to ask a compiler for everything this processor supports; the first that it understands is used."""
_TIMEOUT_SECONDS = 120


class NoKernelError(Exception):
    """Why there is no compiled kernel, as the end of a sentence."""


def load_kernel() -> ctypes.CDLL:
    """Compile the kernel, unless that was done before, and load it; `CC` names the compiler, `cc` by default."""
    try:
        folder = cache_folder()
    except RuntimeError as error:
        raise NoKernelError(f"there is no folder to keep it in ({error}); set XDG_CACHE_HOME to one") from error
    return _load(os.environ.get("CC") or "cc", folder)


def cache_folder() -> Path:
    """Find where compiled kernels are kept: `solfa` in the folder that XDG_CACHE_HOME names, or in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "solfa" / "kernels"


@cache
def _load(compiler: str, folder: Path) -> ctypes.CDLL:
    command = shlex.split(compiler)
    native, described = _describe(command)
    options = (*_OPTIONS, *native)
    digest = hashlib.sha256(repr((command, options)).encode() + described)
    for name in _SOURCES:
        digest.update((_FOLDER / name).read_bytes())
    path = folder / f"sashimi-{digest.hexdigest()[:16]}.so"
    try:
        if not path.exists():
            _logger.info("compiling the generation kernel with %s (only once)", compiler)
            _compile([*command, *options], path)
        return _declared(ctypes.CDLL(str(path)))
    except OSError as error:
        raise NoKernelError(f"the compiled kernel could not be stored or loaded ({error})") from error


def _describe(command: list[str]) -> tuple[tuple[str, ...], bytes]:
    """Ask the compiler for its version and the processor's features, all of which are macros."""
    for native in _NATIVE:
        try:
            asked = subprocess.run(
                [*command, *native, "-dM", "-E", "-x", "c", os.devnull],
                capture_output=True,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoKernelError(
                f"the C compiler {shlex.join(command)!r} does not run ({error}); install one, or set CC"
            ) from error
        if asked.returncode == 0:
            return native, asked.stdout
    raise NoKernelError(f"{shlex.join(command)!r} does not work as a C compiler; install one, or set CC")


def _compile(command: list[str], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        try:
            done = subprocess.run(
                [*command, str(_FOLDER / _SOURCES[0]), "-o", str(made), "-lm"],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NoKernelError(f"the C compiler took more than {_TIMEOUT_SECONDS} seconds") from error
        if done.returncode != 0:
            complaint = next(iter(done.stderr.strip().splitlines()), "it gave no reason")
            raise NoKernelError(f"the C compiler failed ({complaint})")
        # A process that compiled at the same time wrote the same file.
        made.replace(path)


def _declared(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer = ctypes.c_void_p
    library.solfa_begin.argtypes = [ctypes.POINTER(Network)]
    library.solfa_read.argtypes = [ctypes.POINTER(Network), pointer, pointer]
    library.solfa_run.argtypes = [
        *(ctypes.POINTER(Network), pointer, ctypes.c_int64, pointer, pointer, ctypes.c_double, pointer, pointer)
    ]
    library.solfa_begin.restype = library.solfa_read.restype = library.solfa_run.restype = None
    return library
