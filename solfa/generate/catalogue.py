"""From the name of a solver to what generates with what it trained."""

import importlib
from typing import Any

from solfa.errors import ConfigError
from solfa.generate.generator import ClipGenerator

GENERATORS = {
    "lm": ("solfa.generate.language_model", "LanguageModel"),
    "mot": ("solfa.generate.text_model", "TextModel"),
    "sashimi": ("solfa.generate.waveform_model", "WaveformModel"),
}
"""What comes with Solfa, by the solver that trains it; nothing is imported before it is asked for."""


def find_generator(solver: str) -> type[ClipGenerator]:
    """Find what generates: for a solver of Solfa's own, or the `Generator` of a user's `package.module:Class`."""
    if solver in GENERATORS:
        module, name = GENERATORS[solver]
        generator: type[ClipGenerator] = getattr(importlib.import_module(module), name)
        return generator
    if solver == "compression":
        raise ConfigError(
            "solver compression: it trains a codec, which encodes and decodes but does not generate; "
            "use it as the codec //sig/SIG"
        )
    module_name, _, class_name = solver.partition(":")
    if "." not in solver and not class_name:
        raise ConfigError(f"solver: expected one of {', '.join(GENERATORS)} or package.module:Class, found {solver!r}")
    return _of_own_solver(module_name, class_name)


def _of_own_solver(module_name: str, class_name: str) -> type[ClipGenerator]:
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"solver: the model was trained by {module_name}, which cannot be imported ({error}); set PYTHONPATH"
        ) from None
    classes = [getattr(module, class_name, None)] if class_name else list(vars(module).values())
    found = {generator for one in classes if (generator := _generator(one, module_name)) is not None}
    if len(found) != 1:
        raise ConfigError(
            f"solver {module_name}{':' if class_name else ''}{class_name}: it does not say how to generate with what "
            "it trains; set its attribute Generator to a class as solfa.generate.ClipGenerator describes"
        )
    return found.pop()


def _generator(candidate: Any, module_name: str) -> type[ClipGenerator] | None:
    if not isinstance(candidate, type) or candidate.__module__ != module_name:
        return None
    generator = getattr(candidate, "Generator", None)
    return generator if isinstance(generator, type) else None
