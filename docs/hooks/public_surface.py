"""Which names of Solfa are public, read from the source without importing it: what packages say in `__all__`."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "solfa"
PUBLIC_MODULES = ("solfa.errors", "solfa.ops.logistic_mixture")
"""Modules whose names are public under the module's own; all others are exported by packages."""


def module_name(path: Path) -> str:
    """Spell the path of a file as the module that it is."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def module_path(name: str) -> Path:
    """Find the file of a module or of a package."""
    path = ROOT.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


PACKAGES = {module_name(path): path for path in sorted(PACKAGE.rglob("__init__.py"))}


def listed_in_all(path: Path) -> list[str] | None:
    """Read `__all__` of a file; None if it has none."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            listed: list[str] = ast.literal_eval(node.value)
            return listed
    return None


def public_names() -> dict[str, list[str]]:
    """List the names that each public module exports."""
    listed = {name: listed_in_all(module_path(name)) for name in (*PACKAGES, *PUBLIC_MODULES)}
    return {name: names for name, names in sorted(listed.items()) if names is not None}


def type_checking_imports(module: str) -> dict[str, set[str]]:
    """Read what a package imports for type checkers: the home of each public name."""
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


def first_line(name: str) -> str:
    """Read the first line of a module's docstring."""
    text = ast.get_docstring(ast.parse(module_path(name).read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]
