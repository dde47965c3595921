"""The models that one can ask, and what can be asked of each: read from its folder, without loading its weights."""

import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from solfa.config import Config
from solfa.errors import ConfigError
from solfa.generate.base_weights import MODEL_TYPE
from solfa.generate.catalogue import GENERATORS, find_generator
from solfa.generate.condition_facts import ConditionFacts, described_conditions
from solfa.generate.trained_folder import read_solver
from solfa.xp.layout import BEST, copied_epochs
from solfa.xp.record import find_experiment, list_experiments, read_settings

WORDS = {
    "temperature": "Temperature: higher is more varied",
    "top_k": "Top k: among how many codes; 0 is off",
    "top_p": "Top p: codes that sum to this; 0 is off",
    "guidance_scale": "Guidance: how closely to follow the conditions; 1 is off",
    "candidates": "Candidates: of how many clips the best is kept",
    "guidance_from": "Guide from this time on; 1 is noise",
    "guidance_to": "Guide until this time; 0 is the clip",
    "guidance_rescale": "Undo what guidance does to loudness",
    "sampler": "Sampler",
    "steps": "Steps from noise to a clip",
    "grid": "Where the steps are",
    "window_seconds": "Draw longer clips in windows of, seconds",
    "overlap": "How much of a window the one before it gives",
    "semantics": "What a temperature means for a mixture",
    "reject_lowest": "Drop this share, the least likely",
    "reject_highest": "Drop this share, the most likely",
    "sort": "Sort the clips by likelihood",
}
"""The settings that `solfa generate` has flags for, as a page says them."""


@dataclass(frozen=True)
class OptionField:
    """A setting of how a model draws, as a field of a form."""

    name: str
    words: str
    kind: Literal["number", "choice", "switch"]
    default: Any
    """What the experiment says."""
    is_whole: bool = False
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModelFacts:
    """What a page needs to know about a model."""

    name: str
    """Its signature, or the path of its folder."""
    folder: Path
    solver: str
    conditions: tuple[ConditionFacts, ...]
    options: tuple[OptionField, ...]
    epochs: tuple[int, ...]
    """The epochs whose state was kept, besides the best."""
    edits: bool
    """Whether it can make other versions of a recording, or a stretch of it."""

    @property
    def text(self) -> ConditionFacts | None:
        """The condition that a text is for, if there is exactly one."""
        return next((condition for condition in self.conditions if condition.is_only_text), None)


def list_models(xps_dir: Path) -> list[str]:
    """List the signatures of experiments that one can ask for clips, the latest first."""
    trained = [folder for folder in list_experiments(xps_dir) if (folder / BEST).is_file() or copied_epochs(folder)]
    return [folder.name for folder in trained if _solver(folder) in GENERATORS]


def _solver(folder: Path) -> str | None:
    try:
        return read_solver(folder)
    except (ConfigError, OSError):  # one broken folder does not take the others from the list
        return None


def find_model(xps_dir: Path, text: str) -> ModelFacts:
    """Find a model by its signature (or the start of one) or by its folder, and say what can be asked of it."""
    try:
        folder, name = find_experiment(xps_dir, text), None
    except ConfigError:
        folder = Path(text).expanduser()
        if "/" not in text or not folder.exists():
            raise
        folder = folder.absolute()
    if folder.parent == xps_dir:
        name = folder.name
    else:
        name = str(folder)
    if folder.is_file():
        settings: Mapping[str, Any] = {}
    else:
        config = read_settings(folder)
        settings = config.get("settings", {}) if config.get("model_type") == MODEL_TYPE else config
    solver = read_solver(folder)
    generator = find_generator(solver)
    stage = settings.get("generate") or {}
    kind: type[Config] | None = getattr(generator, "Options", None)
    return ModelFacts(
        name=name,
        folder=folder,
        solver=solver,
        conditions=tuple(described_conditions(settings, folder)),
        options=() if kind is None else option_fields(kind, stage.get("sampling") or {}),
        epochs=tuple(copied_epochs(folder)) if folder.is_dir() else (),
        edits=bool(getattr(generator, "edits", False)),
    )


def option_fields(kind: type[Config], own: Mapping[str, Any]) -> tuple[OptionField, ...]:
    """Describe the settings of a kind of model; `own` are those of the experiment."""
    return tuple(
        _option_field(name, field, own.get(name, field.default))
        for name, field in kind.model_fields.items()
        if name in WORDS
    )


def _option_field(name: str, field: FieldInfo, default: Any) -> OptionField:
    kinds = _kinds(field.annotation)
    if bool in kinds:
        return OptionField(name, WORDS[name], "switch", default)
    choices = tuple(str(choice) for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind))
    if choices:
        return OptionField(name, WORDS[name], "choice", default, choices=choices)
    bounds = {
        side: getattr(rule, side) for rule in field.metadata for side in ("ge", "gt", "le", "lt") if hasattr(rule, side)
    }
    low, high = bounds.get("ge", bounds.get("gt")), bounds.get("le", bounds.get("lt"))
    return OptionField(name, WORDS[name], "number", default, is_whole=int in kinds, low=low, high=high)


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """List the types of a union, or the one type that there is."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
