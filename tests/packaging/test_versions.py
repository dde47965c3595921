"""The ranges of pyproject.toml, the versions that are tested, and those that the other files name agree."""

import re

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.packaging.declared import PROJECT, ROOT, classified_pythons, pins, requirements, steps, workflows


def lower_end(requirement: Requirement) -> Version:
    """Read the one `>=` that each range has."""
    (lowest,) = [bound.version for bound in requirement.specifier if bound.operator == ">="]
    return Version(lowest)


def lowest_tested() -> dict[str, str]:
    """Read the lowest versions as the workflow installs them: it puts an older torch in."""
    runs = [step.get("run", "") for step in workflows()["tests.yml"]["jobs"]["lowest"]["steps"]]
    (torch,) = [match[1] for run in runs if (match := re.search(r"/torch==([\d.]+)/", run))]
    return {**pins("constraints-lowest.txt"), "torch": torch}


@pytest.mark.parametrize("requirement", requirements(), ids=lambda requirement: requirement.name)
def test_the_lowest_versions_are_the_lower_ends_of_the_ranges(requirement: Requirement) -> None:
    assert Version(lowest_tested()[canonicalize_name(requirement.name)]) == lower_end(requirement)


def test_the_lowest_versions_lie_within_the_ranges() -> None:
    pinned = pins("constraints-lowest.txt")
    assert all(range_.specifier.contains(pinned[canonicalize_name(range_.name)]) for range_ in requirements())


@pytest.mark.parametrize("requirement", requirements(), ids=lambda requirement: requirement.name)
def test_the_versions_of_the_tests_lie_within_the_ranges(requirement: Requirement) -> None:
    assert requirement.specifier.contains(pins("constraints.txt")[canonicalize_name(requirement.name)])


def test_nothing_is_held_at_its_lowest_version_that_the_package_does_not_ask_for() -> None:
    assert set(pins("constraints-lowest.txt")) == {
        canonicalize_name(requirement.name) for requirement in requirements()
    }


def test_every_claimed_python_is_tested() -> None:
    newest = workflows()["tests.yml"]["jobs"]["newest"]["strategy"]["matrix"]
    assert classified_pythons() <= set(newest["python"]), "claim what was seen to pass"
    used = {
        step["with"]["python-version"] for step in steps() if step.get("uses", "").startswith("actions/setup-python")
    }
    assert used - {"${{ matrix.python }}"} <= set(newest["python"])
    assert {row["python"] for row in newest["include"]} <= set(newest["python"])


def test_the_lowest_python_is_the_first_that_is_claimed() -> None:
    oldest = min(classified_pythons(), key=Version)
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(f">={oldest}")
    lowest = workflows()["tests.yml"]["jobs"]["lowest"]
    assert [step["with"]["python-version"] for step in lowest["steps"] if "with" in step] == [oldest]


def test_the_hooks_format_with_the_ruff_of_the_tests() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    needed = [text for hook in config["repos"][0]["hooks"] for text in hook.get("additional_dependencies", [])]
    assert {text for text in needed if text.startswith("ruff")} == {f"ruff=={pins('constraints.txt')['ruff']}"}


def test_what_the_workflows_call_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = [step["run"] for step in steps() if "run" in step]
    commands.append((ROOT / ".ci/run").read_text(encoding="utf-8"))
    assert {target for command in commands for target in re.findall(r"\bmake ([\w-]+)", command)} <= targets
    folders = {folder for command in commands for folder in re.findall(r"\btests/\w+", command)}
    assert folders and all((ROOT / folder).is_dir() for folder in folders)
