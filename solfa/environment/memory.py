"""How much memory this machine has, and what to say when something would take more than that."""

import os
import re

from solfa.errors import ConfigError
from solfa.spelling import size

_ALLOCATIONS = (
    re.compile(r"tried to allocate (?P<bytes>\d+) bytes"),  # torch on a CPU
    re.compile(r"Tried to allocate (?P<told>[\d.]+ \w+)"),  # torch on a GPU
    re.compile(r"Unable to allocate (?P<told>[\d.]+ \w+)"),  # numpy
    re.compile(r"Storage size calculation overflowed"),
)


def total_memory() -> int:
    """Return the bytes of memory in this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def expect_memory(num_bytes: int, what: str, advice: str) -> None:
    """Refuse, in a sentence that begins with `what`, something that would take more memory than there is."""
    available = total_memory()
    if num_bytes > available:
        raise ConfigError(
            f"{what}: would take {size(num_bytes)} of memory, and this machine has {size(available)}; {advice}"
        )


def allocation_fault(error: BaseException) -> str | None:
    """Say in a sentence what a failed allocation asked for; None if the error is something else."""
    found = next((match for pattern in _ALLOCATIONS if (match := pattern.search(str(error))) is not None), None)
    if found is None and not isinstance(error, MemoryError):
        return None
    values = found.groupdict() if found is not None else {}
    asked = size(int(values["bytes"])) if "bytes" in values else values.get("told", "more than can be counted")
    return (
        f"out of memory: {asked} were asked for at once, and this machine has {size(total_memory())}; ask for fewer "
        "seconds, smaller batches or a smaller model"
    )
