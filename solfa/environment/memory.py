"""How much memory a process may use: the machine's, or less if a container, a job or a shell limits it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from solfa.errors import ConfigError
from solfa.spelling import size

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def host_memory() -> int:
    """Return the bytes of main memory that this process can have at most; on Windows nobody asks, so it is no limit."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    own = OWN_CGROUPS.read_text("utf-8") if OWN_CGROUPS.is_file() else ""
    return min([machine, *(limit for limit in limits if limit != resource.RLIM_INFINITY), *cgroup_limits(own)])


def expect_memory(num_bytes: int, what: str, advice: str) -> None:
    """Refuse, in a sentence that begins with `what`, something that would take more memory than there is."""
    available = host_memory()
    if num_bytes > available:
        raise ConfigError(
            f"{what}: would take {size(num_bytes)} of memory, and this process can have {size(available)}; {advice}"
        )


def cgroup_limits(own: str, cgroups: Path = CGROUPS) -> list[int]:
    """List the memory limits of this process's control groups and of those above them; `own` is /proc/self/cgroup."""
    found = []
    for line in own.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            places, name = _upwards(cgroups, path), "memory.max"
        elif "memory" in controllers.split(","):
            places, name = _upwards(cgroups / "memory", path), "memory.limit_in_bytes"
        else:
            continue
        files = (place / name for place in places)
        found += [text for file in files if file.is_file() and (text := file.read_text("ascii").strip()).isdigit()]
    return [int(text) for text in found]


def _upwards(root: Path, path: str) -> Iterator[Path]:
    # In a container, the path may be that of the host, which is not here; the root then is the container's own.
    place = root / path.strip("/")
    yield place
    while place != root:
        place = place.parent
        yield place


def device_memory(device: str, index: int = 0) -> int:
    """Return the bytes that a process has on a device: `cpu`, `cuda` or `mps`."""
    import torch  # here, because this package answers commands that need no torch

    if device == "cuda":
        return int(torch.cuda.get_device_properties(index).total_memory)
    if device == "mps":
        return int(torch.mps.recommended_max_memory())
    return host_memory()


def peak_memory() -> int:
    """Return the most bytes that this process has used so far, of its GPU if it computes there; 0 if unknown."""
    import torch

    if torch.cuda.is_available() and torch.cuda.memory_allocated():
        return int(torch.cuda.max_memory_allocated())
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
