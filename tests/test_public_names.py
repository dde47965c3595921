"""What packages export: three lists that agree, names that resolve and say what they are for, and nothing imported."""

import ast
import importlib
import inspect
import subprocess
import sys
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

import solfa
from tests.public_names import PACKAGES, PUBLIC, home_of, imported_names, type_checking_imports

HEAVY = ("torch", "numpy", "pyarrow", "pydantic", "transformers", "soundfile", "hydra", "lightning_fabric")
LAZY = sorted(PUBLIC.keys() & PACKAGES.keys())


def lazy_table(module: str) -> dict[str, list[str]]:
    """Read the table that a package gives to `lazy_names`."""
    for node in ast.walk(ast.parse(PACKAGES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy_names":
            table: dict[str, list[str]] = ast.literal_eval(node.args[1])
            return table
    return {}


@pytest.mark.parametrize("module", LAZY)
def test_the_lists_of_a_package_agree(module: str) -> None:
    table = lazy_table(module)
    assert {home: {*names} for home, names in table.items()} == type_checking_imports(module)
    assert sorted(name for names in table.values() for name in names) == sorted({*PUBLIC[module]} - {"__version__"})


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_public_names_resolve_and_say_what_they_are_for(module: str) -> None:
    for name in {*PUBLIC[module]} - {"__version__"}:
        found, home = getattr(importlib.import_module(module), name), home_of(module, name)
        # `solfa.train` is the function until something imports the module, which can be called like it; so is the
        # package `solfa.evaluate`. They are known by their names: tests that import modules of their own forget those
        # that came along, and another is made later.
        is_module = isinstance(found, ModuleType) and found.__name__ == f"{module}.{name}" and callable(found)
        assert found is getattr(home, name) or is_module
        assert docstring(home, name, getattr(home, name)), f"{home.__name__}.{name} has no docstring"


def docstring(home: Any, name: str, found: Any) -> str | None:
    """Find what is written about a name: of classes and functions in them, of values behind them."""
    if inspect.isroutine(found) or (inspect.isclass(found) and found.__module__ == home.__name__):
        return inspect.getdoc(found)
    body = ast.parse(inspect.getsource(home)).body
    for node, after in pairwise(body):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if [ast.unparse(target) for target in targets] == [name]:
            written = after.value if isinstance(after, ast.Expr) else None
            return str(written.value) if isinstance(written, ast.Constant) else None
    return None


@pytest.mark.parametrize("module", LAZY)
def test_no_name_is_that_of_a_submodule(module: str) -> None:
    """Importing the submodule would put it in the place of the name, unless it can be called like it."""
    folder = PACKAGES[module].parent
    below = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    assert below & {*PUBLIC[module]} == ({"evaluate", "train"} if module == "solfa" else set())


def test_packages_hold_no_code() -> None:
    allowed = {"typing", "solfa.lazy_names", "solfa.version"}
    for module, path in PACKAGES.items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                assert node.module in allowed, f"{module} imports {node.module} at once"
            else:
                assert isinstance(node, ast.Expr | ast.If | ast.Assign), f"{module} holds code"


def test_importing_every_package_imports_nothing_heavy() -> None:
    code = f"import sys, {', '.join(PACKAGES)}; print(*set({HEAVY!r}) & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.strip() == ""


def test_a_name_that_is_not_there_is_answered_with_the_nearest() -> None:
    import solfa.data

    with pytest.raises(AttributeError, match="no attribute 'Crp'") as fault:
        solfa.data.Crp  # type: ignore[attr-defined]  # noqa: B018
    assert (fault.value.name, fault.value.obj) == ("Crp", solfa.data)
    assert "Crop" in dir(solfa.data) and "encode" in dir(solfa)


def test_a_name_follows_its_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solfa.store.dataset.open_dataset", len)
    assert solfa.open_dataset is len


def test_imports_are_found_wherever_they_are_written() -> None:
    lines = [
        "import solfa",
        "from solfa.data import Crop",
        "if 1: from solfa.data.batching.modes import Pad",
        "solfa.x()",
    ]
    assert [(found.module, found.name, found.is_public) for found in imported_names("\n".join(lines))] == [
        ("solfa.data", "Crop", True),
        ("solfa.data.batching.modes", "Pad", False),
        ("solfa", "x", False),
    ]
