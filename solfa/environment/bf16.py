"""Whether bfloat16 works on this CPU at all, and whether training gains by it.

Some virtual machines advertise AMX but cannot run it. There, a bf16 matrix product above a certain size kills the
process with SIGILL, while torch's own check says all is well. So everything is tried in another process.
"""

import os
import subprocess
import sys
from functools import cache

SAFE_ISA = "AVX512_CORE_BF16"
"""The value of ONEDNN_MAX_CPU_ISA that keeps oneDNN away from AMX; it must be set before torch is imported."""

WORTH_IT = 1.2
"""How many times faster bf16 has to be: a network has more to do than products, and less precision is not free."""

_TRIAL = """
import torch
a = torch.ones(256, 256, dtype=torch.bfloat16)
assert (a @ a).float().mean().item() == 256.0
assert torch.nn.functional.linear(a, a, a[0]).float().mean().item() > 255.0
"""
# Forwards and backwards through a layer of a small transformer, both ways in turn; the best of each is compared.
_RACE = """
import time, torch
layer, rows = torch.nn.Linear(512, 2048), torch.randn(1024, 512)
def seconds(is_half):
    start = time.process_time()
    with torch.autocast("cpu", torch.bfloat16, enabled=is_half):
        layer(rows).sum().backward()
    return time.process_time() - start
for is_half in (False, True):
    seconds(is_half)
times = [(seconds(False), seconds(True)) for _ in range(7)]
print(min(time for time, _ in times) / min(time for _, time in times))
"""
_TIMEOUT_SECONDS = 120


@cache
def probe_bf16() -> bool:
    """Try a bf16 matrix product in a separate process with this process's environment; once per process."""
    return _run(_TRIAL) is not None


@cache
def measure_bf16() -> float:
    """Measure how many times faster than float32 a layer learns under bf16 autocast; 0 where that crashes."""
    printed = _run(_RACE)
    return float(printed) if printed is not None else 0.0


def _run(script: str) -> str | None:
    """Return what a script prints in a process of its own; None if it fails."""
    trial = subprocess.run(
        [sys.executable, "-P", "-c", script],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=_TIMEOUT_SECONDS,
        check=False,
        text=True,
    )
    return trial.stdout if trial.returncode == 0 else None
