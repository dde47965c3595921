"""What the system says about the processor: its features, and everything that tells one kind from another."""

import os
import platform
from pathlib import Path

_INFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_OF_CORES = (
    *("processor", "cpu MHz", "bogomips", "BogoMIPS", "physical id", "core id", "apicid", "initial apicid"),
    *("siblings", "cpu cores"),
)
"""Lines about one core or its clock, or about how many there are."""


def cpu_flags() -> frozenset[str]:
    """Read the CPU's features; empty if the system does not list them."""
    lines = [line for line in _first_processor() if line.startswith(("flags", "Features"))]
    return frozenset(lines[0].partition(":")[2].split()) if lines else frozenset()


def advertises_amx() -> bool:
    """Tell whether the CPU claims AMX, the matrix unit whose bf16 some virtual machines offer but cannot run."""
    return "amx_tile" in cpu_flags()


def describe_processor() -> list[str]:
    """List what libraries may choose their code by: the model and its features, and how large its caches are."""
    lines = [line for line in _first_processor() if line.partition(":")[0].strip() not in _OF_CORES]
    caches = [path for path in sorted(_CACHES.glob("index*/size")) if os.access(path, os.R_OK)]
    sizes = [f"{path.parent.name}: {path.read_text().strip()}" for path in caches]
    return [platform.machine(), *lines, *sizes]


def _first_processor() -> list[str]:
    if not _INFO.is_file() or not os.access(_INFO, os.R_OK):
        return []
    return _INFO.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
