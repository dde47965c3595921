"""Which names are public, where they are defined, and which of them a piece of code takes."""

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "docs/hooks"))

from public_surface import PACKAGES, public_names, type_checking_imports

__all__ = ["PACKAGES", "PUBLIC", "Imported", "home_of", "imported_names", "type_checking_imports"]

PUBLIC = public_names()
"""Module to the names it exports."""


def home_of(module: str, name: str) -> ModuleType:
    """Import the module in which a public name is defined."""
    for home, names in type_checking_imports(module).items():
        if name in names:
            return importlib.import_module(home)
    return importlib.import_module(module)


class Imported(NamedTuple):
    """A name of Solfa that some code imports or reaches as `solfa.x`."""

    module: str
    name: str

    @property
    def is_public(self) -> bool:
        return f"{self.module}.{self.name}" in PUBLIC or self.name in PUBLIC.get(self.module, [])


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
