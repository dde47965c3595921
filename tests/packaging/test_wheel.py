"""What is installed is what is in the repository: code, settings, weights and C files, and nothing else."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from solfa.version import __version__
from tests.packaging.declared import ROOT

pytestmark = pytest.mark.slow  # builds a wheel
BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel from a copy, so that nothing an earlier build left here gets in."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "solfa", source / "solfa", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=source, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(folder / done.stdout.split()[-1])


def files_of_the_package() -> set[str]:
    paths = [path for path in (ROOT / "solfa").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix() for path in paths}


def test_it_holds_every_file_of_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert inside == files_of_the_package()
    kinds = {Path(name).suffix for name in inside}
    assert {".py", ".yaml", ".safetensors", ".json", ".c", ".h"} <= kinds
    assert "solfa/py.typed" in inside


def test_it_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    folder = f"solfa-{__version__}.dist-info"
    assert "solfa = solfa.cli.main:main" in wheel.read(f"{folder}/entry_points.txt").decode()
    metadata = wheel.read(f"{folder}/METADATA").decode()
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert any(name.startswith(folder) and name.endswith("/LICENSE") for name in wheel.namelist())
