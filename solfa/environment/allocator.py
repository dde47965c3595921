"""The environment variables that encoder processes start with, so that memory and threads cost them little.

A codec allocates and frees hundreds of megabytes per clip. By default glibc asks the kernel for every large block and
returns it right away, and the kernel clears it 4 KiB at a time: about half of the time of a plain EnCodec or DAC loop
over 10 s clips. Kept in the heap, on huge pages if the kernel offers them, the memory is cleared only once.
"""

import platform
from collections.abc import Mapping

from solfa.environment.bf16 import SAFE_ISA, probe_bf16
from solfa.environment.processor import advertises_amx

HEAP_SETTINGS = {
    "MALLOC_MMAP_MAX_": "0",  # A larger MALLOC_MMAP_THRESHOLD_ does not help: glibc ignores more than 32 MiB.
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
}
HUGE_PAGES = "glibc.malloc.hugetlb=1"
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def worker_environment(base: Mapping[str, str], *, one_thread: bool = False, bf16: bool = False) -> dict[str, str]:
    """Copy `base` and add the variables that encoder processes on this machine should start with.

    A variable in `base` is never changed, except that a `GLIBC_TUNABLES` that does not mention huge pages gets them
    added. On systems other than Linux with glibc, memory is left alone. Whether bf16 works is only probed, which takes
    seconds, if it will be used.

    >>> from solfa.environment import worker_environment
    >>> added = worker_environment({"HOME": "/home/ada"}, one_thread=True)
    >>> added["HOME"], added["OMP_NUM_THREADS"]
    ('/home/ada', '1')
    """
    unsafe_bf16 = bf16 and "ONEDNN_MAX_CPU_ISA" not in base and advertises_amx() and not probe_bf16()
    return add_settings(base, glibc=runs_on_glibc(), one_thread=one_thread, unsafe_bf16=unsafe_bf16)


def add_settings(base: Mapping[str, str], *, glibc: bool, one_thread: bool, unsafe_bf16: bool) -> dict[str, str]:
    """Choose the variables from what is known about the machine."""
    added: dict[str, str] = {}
    if glibc:
        added |= HEAP_SETTINGS
    if one_thread:
        added |= dict.fromkeys(THREAD_VARIABLES, "1")
    if unsafe_bf16:
        added["ONEDNN_MAX_CPU_ISA"] = SAFE_ISA
    merged = {**added, **base}
    if glibc:
        merged["GLIBC_TUNABLES"] = with_huge_pages(base.get("GLIBC_TUNABLES", ""))
    return merged


def with_huge_pages(tunables: str) -> str:
    """Add huge pages to a list of glibc tunables (`a=1:b=2`) that does not mention them."""
    settings = [setting for setting in tunables.split(":") if setting]
    name = HUGE_PAGES.partition("=")[0]
    if any(setting.partition("=")[0] == name for setting in settings):
        return tunables
    return ":".join([*settings, HUGE_PAGES])


def runs_on_glibc() -> bool:
    """Tell whether this Python runs on Linux with glibc, whose allocator reads these variables."""
    return platform.system() == "Linux" and platform.libc_ver()[0] == "glibc"
