"""`solfa rm` as it is typed, on a terminal and in a script."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

SOLFA = [sys.executable, "-c", "from solfa.cli.main import main; main()"]


@pytest.fixture
def xps_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two experiments; the second continues from the first."""
    xps_dir = tmp_path / "dora" / "xps"
    for signature, config in (("9521b0af", {}), ("c0ffee12", {"continue_from": str(xps_dir / "9521b0af")})):
        (xps_dir / signature).mkdir(parents=True)
        (xps_dir / signature / ".argv.json").write_text('["solver=lm/debug"]')
        (xps_dir / signature / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("SOLFA_DORA_DIR", str(tmp_path / "dora"))
    return xps_dir


def signatures(xps_dir: Path) -> set[str]:
    return {folder.name for folder in xps_dir.iterdir()}


def test_a_script_says_yes_and_names_what_is_used(solfa_main, xps_dir):
    assert solfa_main("rm", "9521", "c0")[0] == 2
    code, output = solfa_main("rm", "9521")
    assert code == 2 and "--yes" in output
    code, output = solfa_main("rm", "9521", "--yes")
    assert code == 2 and "continue_from of c0ffee12" in output and "--force" in output
    code, output = solfa_main("rm", "c0", "nosuch", "--yes")
    assert code == 2 and "nosuch" in output
    assert signatures(xps_dir) == {"9521b0af", "c0ffee12"}, "nothing is removed unless all can be"
    code, output = solfa_main("rm", "//sig/c0", "9521", "9521b0af", "--yes")
    assert code == 0 and output.count("removed ") == 2, output
    assert signatures(xps_dir) == set()


def test_what_is_used_can_be_forced(solfa_main, xps_dir):
    assert solfa_main("rm", "9521", "--yes", "--force")[0] == 0
    assert signatures(xps_dir) == {"c0ffee12"}


@pytest.mark.parametrize(
    ("answer", "code", "left"), [(b"n\n", 1, {"9521b0af"}), (b"\n", 1, {"9521b0af"}), (b"y\n", 0, set())]
)
def test_somebody_at_a_terminal_is_asked(answer, code, left, xps_dir):
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    run = subprocess.run([*SOLFA, "rm", "9521"], stdin=theirs, capture_output=True, text=True, check=False)
    os.close(ours), os.close(theirs)
    assert run.returncode == code, run.stderr
    assert signatures(xps_dir) == left | {"c0ffee12"}
    assert "continue_from of c0ffee12" in run.stdout and "solver=lm/debug" in run.stdout
