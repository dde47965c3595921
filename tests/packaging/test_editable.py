"""An editable install is found from the folder that holds the clone, too, and the package can be run as a module."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_folder_called_solfa_does_not_hide_the_package(tmp_path: Path) -> None:
    """Python takes a folder without __init__.py for a package of that name only if no path has a real one."""
    (tmp_path / "solfa").mkdir()  # a clone, as git names it
    code = f"import sys; sys.path.append({str(ROOT)!r}); import solfa; print(solfa.__version__)"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["package-dir"] == {"": "."}, "with this, setuptools adds a path, as above, and no import hook"


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "solfa", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("solfa ")
