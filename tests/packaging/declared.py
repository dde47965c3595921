"""What the project's own files say about versions, read once for the tests beside this one."""

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
NOT_TESTED = {"wandb", "eval", "docs", "ray"}
"""Extras that neither `make test` nor `make test-lowest` installs."""


def requirements(*, extras: bool = True) -> list[Requirement]:
    """List what the package asks for, with what its tested extras ask for."""
    lists = [PROJECT["dependencies"]]
    if extras:
        lists += [texts for name, texts in PROJECT["optional-dependencies"].items() if name not in NOT_TESTED]
    return [Requirement(text) for texts in lists for text in texts]


def pins(name: str) -> dict[str, str]:
    """Read a constraints file: package to version."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(package): version for package, version in pairs}


def workflows() -> dict[str, Any]:
    """Read the workflows of GitHub Actions by their file names."""
    paths = sorted((ROOT / ".github/workflows").glob("*.yml"))
    return {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}


def steps() -> list[dict[str, Any]]:
    """List all steps of all jobs."""
    return [step for workflow in workflows().values() for job in workflow["jobs"].values() for step in job["steps"]]


def classified_pythons() -> set[str]:
    """List the versions of Python that the package claims."""
    found = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", text) for text in PROJECT["classifiers"]]
    return {match[1] for match in found if match}
