import os
import subprocess
import sys

import pytest

from solfa.environment.allocator import HEAP_SETTINGS, add_settings, runs_on_glibc, with_huge_pages, worker_environment

NOTHING = {"glibc": False, "one_thread": False, "unsafe_bf16": False}


def test_everything_of_the_base_is_kept_and_the_base_is_not_changed():
    base = {"PATH": "/bin", "HOME": "/root"}
    result = add_settings(base, glibc=True, one_thread=True, unsafe_bf16=True)
    assert result.items() > base.items()
    assert base == {"PATH": "/bin", "HOME": "/root"}


def test_other_systems_get_the_environment_unchanged():
    assert add_settings({"PATH": "/bin"}, **NOTHING) == {"PATH": "/bin"}


def test_glibc_keeps_its_memory_on_huge_pages():
    added = add_settings({}, **{**NOTHING, "glibc": True})
    assert added == {**HEAP_SETTINGS, "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def test_threads_are_limited_only_when_asked_for():
    assert add_settings({}, **{**NOTHING, "one_thread": True}) == {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def test_unsafe_bf16_limits_the_instructions_of_onednn():
    assert add_settings({}, **{**NOTHING, "unsafe_bf16": True}) == {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "MALLOC_MMAP_MAX_", "ONEDNN_MAX_CPU_ISA"])
def test_the_users_own_setting_wins(name):
    assert add_settings({name: "7"}, glibc=True, one_thread=True, unsafe_bf16=True)[name] == "7"


@pytest.mark.parametrize(
    ("tunables", "expected"),
    [
        ("", "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.arena_max=2", "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
        ("glibc.malloc.hugetlb=2:glibc.malloc.check=3", "glibc.malloc.hugetlb=2:glibc.malloc.check=3"),
    ],
)
def test_tunables_are_merged_and_never_overridden(tunables, expected):
    assert with_huge_pages(tunables) == expected


@pytest.mark.skipif(not runs_on_glibc(), reason="glibc reads these variables")
def test_large_blocks_of_a_worker_come_from_the_heap():
    # A block from mmap is given back by free, so the second one is at new, untouched pages; in the heap it is reused.
    code = (
        "import ctypes, resource\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]\n"
        "libc.free.argtypes = [ctypes.c_void_p]\n"
        "size = 100 << 20\n"
        "def touch():\n"
        "    block = libc.malloc(size); ctypes.memset(block, 1, size); libc.free(block)\n"
        "touch()\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "for _ in range(3): touch()\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)\n"
    )

    def faults(environment):
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return int(run.stdout)

    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    assert faults(worker_environment(plain)) < 50 <= faults(plain)
