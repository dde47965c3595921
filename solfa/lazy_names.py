"""The public names of a package, imported from the modules they live in when somebody first asks for them.

    if TYPE_CHECKING:
        from solfa.data.batching.modes import Crop, Pack, Pad
    else:
        __getattr__, __dir__ = lazy_names(__name__, {"solfa.data.batching.modes": ["Crop", "Pack", "Pad"]})

    __all__ = ["Crop", "Pack", "Pad"]

`import solfa.data` then costs nothing, and torch is imported by whoever uses a name that needs it. Type checkers,
editors and the API reference read the imports. Written in the other branch, `__getattr__` does not tell them that
every name exists. A test holds that the three lists agree.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` of a package, given the public names that each module is home to."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        # Not kept in the package: a name is always what its home says, also after a test replaced it there.
        return getattr(import_module(home_of[name]), name)

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return find, listed


def callable_package(package: str, home: str, name: str) -> None:
    """Let a package be called like a function that lives in one of its modules: `solfa.evaluate(...)`.

    Importing anything of the package puts it in the place of a function of the same name, so both have to work.
    """

    class CallablePackage(ModuleType):
        """This package, as a function."""

        def __call__(self, *args: Any, **settings: Any) -> Any:
            return getattr(import_module(home), name)(*args, **settings)

    sys.modules[package].__class__ = CallablePackage
