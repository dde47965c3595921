"""Whether bfloat16 works on this CPU at all.

Some virtual machines advertise AMX but cannot run it. There, a bf16 matrix product above a certain size kills the
process with SIGILL, while torch's own check says all is well. So the product is tried in another process.
"""

import os
import subprocess
import sys
from functools import cache

SAFE_ISA = "AVX512_CORE_BF16"
"""The value of ONEDNN_MAX_CPU_ISA that keeps oneDNN away from AMX; it must be set before torch is imported."""

_TRIAL = """
import torch
a = torch.ones(256, 256, dtype=torch.bfloat16)
assert (a @ a).float().mean().item() == 256.0
assert torch.nn.functional.linear(a, a, a[0]).float().mean().item() > 255.0
"""
_TIMEOUT_SECONDS = 120


@cache
def probe_bf16() -> bool:
    """Try a bf16 matrix product in a separate process with this process's environment; once per process."""
    trial = subprocess.run(
        [sys.executable, "-P", "-c", _TRIAL],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_TIMEOUT_SECONDS,
        check=False,
    )
    return trial.returncode == 0
