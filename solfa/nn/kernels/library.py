"""Load a C library, compiled on first use for this machine and kept in the user's cache folder.

A library's name has a digest of its sources, the options and everything the compiler says about itself and the
processor, so that machines that share a home folder, or another compiler or version, never load each other's code.
"""

import ctypes
import hashlib
import logging
import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_logger = logging.getLogger(__name__)

VECTORS = Path(__file__).with_name("vectors.h")
"""Vectors of numbers and functions of them, which any source may include."""
# Not -ffast-math: it may reorder sums and assumes there are no infinities. Contraction only fuses multiply-adds.
_OPTIONS = ("-O3", "-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared")
_NATIVE: tuple[tuple[str, ...], ...] = (("-march=native",), ("-mcpu=native",), ())
"""How to ask a compiler for everything this processor supports; the first that it understands is used."""
_TIMEOUT_SECONDS = 120


class NoKernelError(Exception):
    """Why there is no compiled kernel, as the end of a sentence."""


def load_library(name: str, sources: Sequence[Path]) -> ctypes.CDLL:
    """Compile the first source, which includes the others, unless that was done before, and load it.

    `CC` names the compiler, `cc` by default.
    """
    try:
        folder = cache_folder()
    except RuntimeError as error:
        raise NoKernelError(f"there is no folder to keep it in ({error}); set XDG_CACHE_HOME to one") from error
    return _load(name, tuple(sources), os.environ.get("CC") or "cc", folder)


def cache_folder() -> Path:
    """Find where compiled kernels are kept: `solfa` in the folder that XDG_CACHE_HOME names, or in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "solfa" / "kernels"


@cache
def _load(name: str, sources: tuple[Path, ...], compiler: str, folder: Path) -> ctypes.CDLL:
    command = shlex.split(compiler)
    native, described = _describe(command)
    options = (*_OPTIONS, *native)
    digest = hashlib.sha256(repr((command, options)).encode() + described)
    for source in sources:
        digest.update(source.read_bytes())
    path = folder / f"{name}-{digest.hexdigest()[:16]}.so"
    try:
        if not path.exists():
            _logger.info("compiling the kernel %s with %s (only once)", name, compiler)
            _compile([*command, *options, f"-I{VECTORS.parent}"], sources[0], path)
        return ctypes.CDLL(str(path))
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


def _compile(command: list[str], source: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        try:
            done = subprocess.run(
                [*command, str(source), "-o", str(made), "-lm"],
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
