"""Find the solver class that a config names: one of Solfa's own, or a user's `package.module:Class`."""

import importlib
from importlib.util import find_spec
from typing import Any

from solfa.config import nearest
from solfa.errors import ConfigError
from solfa.solvers.standard import StandardSolver

SOLVERS = {
    "compression": "solfa.solvers.tasks.compression",
    "flow": "solfa.solvers.tasks.flow",
    "lm": "solfa.solvers.tasks.lm",
    "mot": "solfa.solvers.tasks.mot",
    "sashimi": "solfa.solvers.tasks.sashimi",
}
"""Solfa's own tasks and their modules; each is imported when first needed."""


def find_solver(name: str) -> "type[StandardSolver[Any]]":
    """Find a solver by its name in `SOLVERS`, or a user's own by `package.module` or `package.module:Class`.

    >>> from solfa.solvers import find_solver
    >>> find_solver("lm").__name__
    'LMSolver'
    """
    module_name, _, class_name = name.partition(":")
    if "." not in module_name and not class_name:
        if module_name not in SOLVERS:
            hint = nearest(module_name, SOLVERS)
            raise ConfigError(
                f"solver: expected one of {', '.join(SOLVERS)} or package.module:Class, found {name!r}{hint}"
            )
        module_name = SOLVERS[module_name]
    elif not _exists(module_name):
        raise ConfigError(
            f"solver: there is no module {module_name!r} on the Python path; check the name, or set PYTHONPATH"
        )
    return _solver_of(module_name, class_name)


def _exists(module_name: str) -> bool:
    if not all(part.isidentifier() for part in module_name.split(".")):
        return False
    try:
        return find_spec(module_name) is not None
    except ModuleNotFoundError as error:
        # The module or a parent of it; any other name is something that the module itself failed to import.
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        return False


def _classes(module_name: str) -> "dict[str, type[StandardSolver[Any]]]":
    module = importlib.import_module(module_name)
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, StandardSolver)
        and value is not StandardSolver
        and value.__module__ == module.__name__
    }


def _solver_of(module_name: str, class_name: str) -> "type[StandardSolver[Any]]":
    found = _classes(module_name)
    if class_name:
        if class_name not in found:
            raise ConfigError(f"solver: {module_name} has no solver {class_name!r}{nearest(class_name, found)}")
        return found[class_name]
    if len(found) != 1:
        raise ConfigError(
            f"solver: expected one subclass of StandardSolver in {module_name}, found {', '.join(found) or 'none'}; "
            "write package.module:Class to name one"
        )
    return next(iter(found.values()))
