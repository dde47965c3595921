"""Commands as a user types them, in a process of their own or in this one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from solfa.cli.main import app
from tests.logs import restored_log

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def run(dora_dir: Path, *command: str) -> str:
    """Run a command with experiments in a folder; return what it printed."""
    environment = {**os.environ, "SOLFA_DORA_DIR": str(dora_dir)}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        environment.pop(name, None)
    done = subprocess.run(
        [str(BIN / command[0]), *command[1:]], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def solfa_here(dora_dir: Path, *arguments: object) -> str:
    """Run a `solfa` command in this process, which need not import torch again; return what it printed."""
    with pytest.MonkeyPatch.context() as patch, restored_log():
        patch.setenv("SOLFA_DORA_DIR", str(dora_dir))
        patch.setattr(sys, "path", list(sys.path))
        patch.delitem(sys.modules, "solfa.train", raising=False)
        result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output
