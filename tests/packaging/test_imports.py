"""The package declares what it imports, imports what it declares, and needs no module that only POSIX has."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.declared import PROJECT, ROOT, requirements

PACKAGE = ROOT / "solfa"
THROUGH_OTHERS = {
    "accelerate": "transformers reads GGUF with it",
    "gguf": "transformers reads GGUF with it",
    "python-multipart": "starlette reads forms with it",
    "submitit": "Dora starts jobs with it; its name is among the settings",
    "tensorboard": "torch.utils.tensorboard writes with it",
}
"""Declared, though no line of the package imports them."""
NOT_USERS = {"dev", "docs"}
"""Extras for what the package itself does not import."""
OTHER_NAMES = {"visqol": "visqol-python"}
"""Modules of distributions that are called otherwise and that the tests do not need."""
ONLY_POSIX = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}


def imported(node: ast.AST) -> list[str]:
    """Name the modules that one statement imports, or one call of `import_module` with a plain text."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(module)), *_]):
            return [module]
        case ast.Call(func=ast.Attribute(attr="import_module"), args=[ast.Constant(value=str(module)), *_]):
            return [module]
    return []


@cache
def parsed() -> dict[Path, ast.Module]:
    """Read all modules of the package."""
    return {path: ast.parse(path.read_bytes()) for path in sorted(PACKAGE.rglob("*.py"))}


def third_party() -> dict[str, Path]:
    """Name the packages that come from elsewhere, each with a file that imports it."""
    names = {
        module.partition(".")[0]: path
        for path, tree in parsed().items()
        for node in ast.walk(tree)
        for module in imported(node)
    }
    return {name: path for name, path in names.items() if name not in sys.stdlib_module_names and name != "solfa"}


owners = cache(packages_distributions)
"""Which installed distributions have a module; looks at every one of them."""


def distributions(module: str) -> set[str]:
    """Find what has to be installed for a module; where it is not installed here, that is taken to have its name."""
    return {canonicalize_name(name) for name in owners().get(module, [OTHER_NAMES.get(module, module)])}


def declared() -> set[str]:
    """Name what the package asks for, always or with an extra that is for its users."""
    extras = [texts for name, texts in PROJECT["optional-dependencies"].items() if name not in NOT_USERS]
    found = [*requirements(extras=False), *(Requirement(text) for texts in extras for text in texts)]
    return {canonicalize_name(requirement.name) for requirement in found}


@pytest.mark.slow
def test_everything_that_is_imported_is_declared() -> None:
    missing = {name: path for name, path in third_party().items() if not distributions(name) & declared()}
    assert missing == {}, "add it to pyproject.toml, constraints.txt and constraints-lowest.txt"


@pytest.mark.slow
def test_everything_that_is_declared_is_imported() -> None:
    used = {name for module in third_party() for name in distributions(module)} | set(THROUGH_OTHERS)
    assert declared() - used == set(), "take it out of pyproject.toml, or say here who uses it"
    assert set(THROUGH_OTHERS) <= declared()


def when_loaded(tree: ast.Module) -> Iterator[ast.AST]:
    """Walk over what runs when a module is imported: not what stands in functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def test_no_module_needs_at_import_what_windows_does_not_have() -> None:
    needing = {
        path.relative_to(ROOT)
        for path, tree in parsed().items()
        for node in when_loaded(tree)
        if {module.partition(".")[0] for module in imported(node)} & ONLY_POSIX
    }
    assert needing == set(), "import it in the function that uses it, after asking sys.platform"
