"""Which names are public, read from the source: the packages that say `__all__`, and two modules."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1] / "solfa"
PUBLIC_MODULES = ("solfa.errors", "solfa.ops.logistic_mixture")
"""Modules whose names are public under the module's own; all others are exported by packages."""


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


PACKAGES = {module_name(path): path for path in sorted(PACKAGE.rglob("__init__.py"))}


def listed_in_all(path: Path) -> list[str] | None:
    """Read `__all__` of a file; None if it has none."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            listed: list[str] = ast.literal_eval(node.value)
            return listed
    return None


def _public() -> dict[str, list[str]]:
    files = {**PACKAGES, **{name: PACKAGE.parent / f"{name.replace('.', '/')}.py" for name in PUBLIC_MODULES}}
    listed = {name: listed_in_all(path) for name, path in files.items()}
    return {name: names for name, names in listed.items() if names is not None}


PUBLIC = _public()
"""Module to the names it exports."""


def home_of(module: str, name: str) -> ModuleType:
    """Import the module in which a public name is defined."""
    for home, names in type_checking_imports(module).items():
        if name in names:
            return importlib.import_module(home)
    return importlib.import_module(module)


def type_checking_imports(module: str) -> dict[str, set[str]]:
    """Read what a package imports for type checkers: module to names."""
    if module not in PACKAGES:
        return {}
    tree = ast.parse(PACKAGES[module].read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {
        str(node.module): {alias.name for alias in node.names}
        for block in blocks
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }


class Imported(NamedTuple):
    """A name of Solfa that some code imports or reaches as `solfa.x`."""

    module: str
    name: str

    @property
    def is_public(self) -> bool:
        if f"{self.module}.{self.name}" in PUBLIC:
            return True
        return self.name in PUBLIC.get(self.module, [])


def imported_names(code: str) -> Iterator[Imported]:
    """List what a piece of code takes from Solfa."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "solfa":
            yield from (Imported(node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "solfa" and alias.name != "solfa":
                    yield Imported(*alias.name.rsplit(".", 1))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "solfa":
            yield Imported("solfa", node.attr)
