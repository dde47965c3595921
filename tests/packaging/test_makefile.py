"""`make` installs the build of torch that the machine can use, from the index that the user can reach."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CPU = "--index-url https://download.pytorch.org/whl/cpu"

MAKE = shutil.which("make") or ""
pytestmark = pytest.mark.skipif(not MAKE, reason="needs make")

PYTHON = """#!/bin/sh
case "$*" in
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip config list") cat "$PIP_SETTINGS" ;;
  "-m pip install "*) echo "$*" >> "$INSTALLED" ;;
  *) exit 1 ;;
esac
"""
"""An interpreter that makes environments like itself, and notes what would be installed."""


def installed(folder: Path, *, machine: str = "Linux x86_64", gpu: bool = False, pip: str = "", torch_index: str = "-"):
    """Make `.torch` on such a machine; return what pip was told to install."""
    tools = folder / "tools"
    tools.mkdir()
    scripts = {"python": PYTHON, "uname": f"#!/bin/sh\necho {machine}\n"}
    scripts["nvidia-smi"] = f"#!/bin/sh\nexit {0 if gpu else 9}\n"
    for name, script in scripts.items():
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    (folder / "pip").write_text(pip)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "PIP_SETTINGS": f"{folder / 'pip'}"}
    environment["INSTALLED"] = str(folder / "installed")
    venv = folder / "venv"
    command = [MAKE, f"PYTHON={tools / 'python'}", f"VENV={venv}", f"{venv}/.torch"]
    if torch_index != "-":
        command.append(f"TORCH_INDEX={torch_index}")
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return (folder / "installed").read_text()


@pytest.mark.parametrize("pip", ["", "global.timeout='60'\n", "global.index-url='https://pypi.org/simple'\n"])
def test_linux_without_a_gpu_gets_the_cpu_build(tmp_path: Path, pip: str) -> None:
    told = installed(tmp_path, pip=pip)
    assert CPU in told and "torch==" in told


@pytest.mark.parametrize(
    "machine",
    [
        {"gpu": True},
        {"machine": "Darwin arm64"},
        {"machine": "Linux aarch64"},
        {"pip": ":env:.index-url='https://pypi.example/simple'\n"},
        {"pip": "global.find-links='/wheels'\n"},
        {"pip": "install.no-index='1'\n"},
        {"torch_index": ""},
    ],
)
def test_elsewhere_pip_chooses(tmp_path: Path, machine: dict[str, object]) -> None:
    told = installed(tmp_path, **machine)  # type: ignore[arg-type]
    assert "--index-url" not in told and "torch==" in told


def test_an_index_that_is_given_is_taken(tmp_path: Path) -> None:
    assert "--index-url https://torch.example/cu130 torch==" in installed(
        tmp_path, gpu=True, torch_index="https://torch.example/cu130"
    )
