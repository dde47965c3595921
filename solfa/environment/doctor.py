"""What this machine can do, as data: one finding per thing that helps or slows down encoding and training."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from solfa.environment.allocator import HUGE_PAGES, runs_on_glibc
from solfa.environment.bf16 import SAFE_ISA, probe_bf16
from solfa.environment.processor import advertises_amx, cpu_flags
from solfa.environment.ranks import usable_cores

Status = Literal["ok", "warn", "missing"]

OPTIONAL = {
    "av": ("reads m4a, aac and video", "pip install 'solfa[av]'"),
    "starlette": ("opens pages in a browser: solfa studio", "pip install 'solfa[studio]'"),
}
"""Module, what it is for, how to get it."""
AUDIO_FORMATS = frozenset({"FLAC", "OGG", "MP3"})
LOW_DISK_GIB = 5.0
CPU_FEATURES = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "asimd", "bf16", "sve")


@dataclass(frozen=True)
class Finding:
    """One finding of `examine`: what was checked, its status, and what to do about it."""

    name: str
    status: Status
    found: str
    advice: str = ""
    """What to do about it; empty if there is nothing to do."""


def examine() -> list[Finding]:
    """Examine the machine; takes a few seconds, because torch is imported and bf16 is tried in another process."""
    checks: tuple[Callable[[], list[Finding]], ...] = (
        _python,
        _torch,
        _cpu,
        _bf16,
        _memory_allocation,
        _audio_library,
        _optional_packages,
        _disk,
    )
    return [finding for check in checks for finding in check()]


def _python() -> list[Finding]:
    return [Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")]


def _torch() -> list[Finding]:
    if importlib.util.find_spec("torch") is None:
        return [Finding("torch", "missing", "not installed", "pip install torch")]
    import torch

    devices = ["cpu"]
    if torch.cuda.is_available():
        devices += [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return [
        Finding("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads"),
        Finding("devices", "ok", ", ".join(devices)),
    ]


def _cpu() -> list[Finding]:
    cores, flags = usable_cores(), cpu_flags()
    known = ", ".join(feature for feature in CPU_FEATURES if feature in flags)
    total = os.cpu_count() or cores
    shared = "" if cores == total else f" of {total}"
    slow = platform.machine() in ("x86_64", "AMD64") and bool(flags) and "avx2" not in flags
    advice = "codecs are several times slower without AVX2; use another machine" if slow else ""
    return [
        Finding("cores", "ok", f"{cores}{shared} usable"),
        Finding("cpu features", "warn" if slow else "ok", known or "not listed by this system", advice),
    ]


def _bf16() -> list[Finding]:
    if importlib.util.find_spec("torch") is None:
        return []
    if probe_bf16():
        fast = cpu_flags() & {"avx512_bf16", "amx_bf16"}
        offer = ", and fast; `solfa encode --try-precision bf16` says what it gains" if fast else ""
        return [Finding("bf16 on the cpu", "ok", f"works{offer}")]
    advice = "use fp32 on the cpu"
    if advertises_amx():
        advice += f", or set ONEDNN_MAX_CPU_ISA={SAFE_ISA} before Python starts"
    return [Finding("bf16 on the cpu", "warn", "a test crashed its process", advice)]


def _memory_allocation() -> list[Finding]:
    if not runs_on_glibc():
        return [Finding("memory allocation", "ok", "the system's default, left alone")]
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    modes = setting.read_text(encoding="ascii") if setting.is_file() else ""
    chosen = modes.partition("[")[2].partition("]")[0] or "not offered"
    found = f"{' '.join(platform.libc_ver())}, huge pages: {chosen}; encoder processes reuse their memory"
    if chosen in ("always", "madvise"):
        return [Finding("memory allocation", "ok", f"{found} ({HUGE_PAGES})")]
    return [Finding("memory allocation", "warn", found, f"ask your administrator to write madvise to {setting}")]


def _audio_library() -> list[Finding]:
    if importlib.util.find_spec("soundfile") is None:
        return [Finding("soundfile", "missing", "not installed", "pip install soundfile")]
    import soundfile

    library: Any = soundfile
    formats = library.available_formats()
    names = {name for name in AUDIO_FORMATS if name in formats}
    names |= {"OPUS"} & set(library.available_subtypes("OGG") if "OGG" in formats else ())
    absent = sorted({*AUDIO_FORMATS, "OPUS"} - names)
    found = f"{library.__version__}, {library.__libsndfile_version__}, reads {', '.join(sorted(names))}"
    if not absent:
        return [Finding("soundfile", "ok", found)]
    return [Finding("soundfile", "warn", f"{found}, not {', '.join(absent)}", "pip install --upgrade soundfile")]


def _optional_packages() -> list[Finding]:
    findings = []
    for module, (purpose, advice) in OPTIONAL.items():
        if importlib.util.find_spec(module) is None:
            findings.append(Finding(module, "missing", f"not installed ({purpose})", advice))
        else:
            findings.append(Finding(module, "ok", f"{importlib.metadata.version(module)}, {purpose}"))
    return findings


def _disk() -> list[Finding]:
    free = shutil.disk_usage(Path.cwd()).free / 2**30
    if free >= LOW_DISK_GIB:
        return [Finding("disk", "ok", f"{free:.1f} GiB free here")]
    return [Finding("disk", "warn", f"{free:.1f} GiB free here", "free some space or write the dataset elsewhere")]
