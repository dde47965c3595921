"""Named points where a test can kill the process, to prove that nothing is lost."""

import os
import signal
import sys

VARIABLE = "SOLFA_CRASH_AT"


def crash_point(name: str) -> None:
    """Die by SIGKILL here if the environment says so: `SOLFA_CRASH_AT=NAME`, or `NAME#3` for the third pass."""
    wanted = os.environ.get(VARIABLE)
    if wanted is None:
        return
    point, _, countdown = wanted.partition("#")
    if point != name:
        return
    remaining = int(countdown or 1) - 1
    if remaining:
        os.environ[VARIABLE] = f"{point}#{remaining}"
    elif sys.platform != "win32":  # where nothing ends a process as suddenly
        os.kill(os.getpid(), signal.SIGKILL)
