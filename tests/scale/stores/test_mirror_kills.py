import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.solvers.conftest import same_run

pytestmark = pytest.mark.scale

ROOT = Path(__file__).parents[3]
POINTS = (
    *(f"mirror:after-file#{number}" for number in (1, 2, 5, 9, 14)),
    *(f"mirror:brought-back#{number}" for number in (1, 2, 3)),
)


def test_killed_while_it_is_copied_or_brought_back_a_run_ends_as_an_undisturbed_one(
    bucket: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.scale.stores.mirror_kills", tmp_path / "runs", f"{bucket}/runs", *POINTS]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for point in POINTS:
        assert same_run(tmp_path / "runs/whole", tmp_path / "runs" / point), point
