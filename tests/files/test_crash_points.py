"""Crash points are silent unless the environment names them."""

import os
import subprocess
import sys

PROGRAM = """
from solfa.files.crash_points import crash_point
for number in range(4):
    crash_point("other")
    crash_point("here")
    print(number, flush=True)
"""


def run(point: str | None) -> tuple[int, list[str]]:
    environment = {name: value for name, value in os.environ.items() if name != "SOLFA_CRASH_AT"}
    if point is not None:
        environment["SOLFA_CRASH_AT"] = point
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.split()


def test_it_dies_at_the_named_pass_and_nowhere_else() -> None:
    assert run(None) == (0, ["0", "1", "2", "3"])
    assert run("here") == (-9, [])
    assert run("here#3") == (-9, ["0", "1"])
    assert run("elsewhere") == (0, ["0", "1", "2", "3"])
