"""An editable install is found from the folder that holds the clone, too, and the package can be run as a module."""

import os
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


def test_the_package_runs_as_a_module_and_nothing_of_the_folder_one_is_in_runs_with_it(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit('this is not the typer that the command line needs')")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "solfa", "--version"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.startswith("solfa "), done.stderr
