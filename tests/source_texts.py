"""The texts that modules hold, for tests of what may be spelled where."""

import ast
from functools import cache
from pathlib import Path

import solfa

PACKAGE = Path(solfa.__file__).parent


def modules() -> dict[str, Path]:
    """List the modules of the package by their paths in it."""
    return {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def texts(path: Path) -> tuple[tuple[int, str], ...]:
    """List the texts of a module that are no docstrings, with their lines; what is computed in one is a 0."""
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    skipped = inner | {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found = []
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "0" for part in node.values]
            found.append((node.lineno, "".join(map(str, parts))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            found.append((node.lineno, node.value))
    return tuple(found)
