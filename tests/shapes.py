"""Shapes and types in signatures, checked at every call while tests run.

jaxtyping's own import hook checks all arguments twice and binds each call to its signature; checks took a fifth of the
time of all tests. Here every call is checked once, by beartype, in a context of jaxtyping: a name of an axis means one
number for all arguments and what is returned. How to check a function is worked out when it is first called; most are
called in one process or in none.
"""

import ast
import hashlib
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import jaxtyping
from beartype import beartype

PACKAGES = ("solfa.ops", "solfa.nn", "solfa.models", "solfa.codecs", "solfa.data")
VERSION = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
"""In the names of compiled modules, which processes without checks must not read."""


def checked(definition: Any) -> Any:
    """Check a function at each call; and what constructs a class, if it is a dataclass."""
    if not isinstance(definition, FunctionType):
        return jaxtyping.jaxtyped(definition, typechecker=beartype)
    if not definition.__annotations__:
        return definition
    call: Callable[..., Any] | None = None
    axes = jaxtyping.jaxtyped("context")

    @wraps(definition)
    def checked_call(*arguments: Any, **named: Any) -> Any:
        nonlocal call
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return definition(*arguments, **named)
        if call is None:
            whole = jaxtyping.jaxtyped(definition, typechecker=beartype) if asks_for_more(definition) else None
            call = whole or beartype(definition)
        with axes:
            return call(*arguments, **named)

    return checked_call


def asks_for_more(function: FunctionType) -> bool:
    """Whether only jaxtyping's own way will do.

    It does for sizes that are computed from arguments, for names that only type checkers import, and for functions that
    run after their call.
    """
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        return True
    parts = [part for hint in function.__annotations__.values() for part in parts_of(hint)]
    return any(
        isinstance(part, (str, typing.ForwardRef))
        or (isinstance(part, type) and issubclass(part, jaxtyping.AbstractArray) and "{" in part.dim_str)
        for part in parts
    )


def parts_of(hint: Any) -> Iterator[Any]:
    """Give an annotation, and all that it is made of."""
    yield hint
    for part in typing.get_args(hint):
        yield from parts_of(part)


class _Decorate(ast.NodeTransformer):
    """Put `checked` below the other decorators of a function, and above those of a class."""

    def _decorate(self, node: Any, place: int) -> Any:
        name = ast.Attribute(ast.Name("__shapes__", ast.Load()), "checked", ast.Load())
        node.decorator_list.insert(place, ast.fix_missing_locations(ast.copy_location(name, node)))
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return self._decorate(node, len(node.decorator_list))

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return self._decorate(node, 0)


class _Loader(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__shapes__"] = sys.modules[__name__]
        super().exec_module(module)

    def source_to_code(self, data: Any, path: Any, *, _optimization: int = -1) -> CodeType:  # type: ignore[override]
        tree = _Decorate().visit(ast.parse(data, path))
        code: CodeType = compile(tree, path, "exec", dont_inherit=True, optimize=_optimization)
        return code

    def get_data(self, path: str) -> bytes:
        return super().get_data(_own_name(path))

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        super().set_data(_own_name(path), data, _mode=_mode)


def _own_name(path: str) -> str:
    return f"{path.removesuffix('.pyc')}.shapes-{VERSION}.pyc" if path.endswith(".pyc") else path


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not f"{name}.".startswith(tuple(f"{package}." for package in PACKAGES)):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def check_shapes() -> None:
    """Check what is imported from now on."""
    early = [name for name in sys.modules if name in PACKAGES]
    assert not early, f"these are imported already, and not checked: {early}"
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
