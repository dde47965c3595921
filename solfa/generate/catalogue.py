"""Find the generator class for the models that a solver trains."""

import importlib
from typing import Any

from solfa.errors import ConfigError
from solfa.generate.generator import ClipGenerator

GENERATORS = {
    "flow": ("solfa.generate.latent_model", "LatentModel"),
    "lm": ("solfa.generate.language_model", "LanguageModel"),
    "mot": ("solfa.generate.text_model", "TextModel"),
    "sashimi": ("solfa.generate.waveform_model", "WaveformModel"),
}
"""Solfa's own generators by solver name; each is imported when first needed."""


def find_generator(solver: str, *, trust_code: bool = False) -> type[ClipGenerator]:
    """Find the generator of one of Solfa's solvers, or the `Generator` of a user's `package.module:Class`."""
    if solver in GENERATORS:
        module, name = GENERATORS[solver]
        generator: type[ClipGenerator] = getattr(importlib.import_module(module), name)
        return generator
    if solver == "compression":
        raise ConfigError(
            "solver compression: this experiment trained a codec, which does not generate; "
            "use it as a codec with //sig/SIG"
        )
    module_name, _, class_name = solver.partition(":")
    if "." not in solver and not class_name:
        raise ConfigError(f"solver: expected one of {', '.join(GENERATORS)} or package.module:Class, found {solver!r}")
    if not trust_code:
        raise ConfigError(
            f"solver {solver}: this model was trained by custom code, which would run when you load it; "
            "if you trust that code, pass `trust_code=True`"
        )
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
            f"solver {module_name}{':' if class_name else ''}{class_name}: it has no generator for its models; "
            "set its attribute Generator to a class like solfa.generate.ClipGenerator"
        )
    return found.pop()


def _generator(candidate: Any, module_name: str) -> type[ClipGenerator] | None:
    if not isinstance(candidate, type) or candidate.__module__ != module_name:
        return None
    generator = getattr(candidate, "Generator", None)
    return generator if isinstance(generator, type) else None
