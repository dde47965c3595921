"""What a trained model can be conditioned on, told as the flags of `solfa generate`, from its folder alone.

The settings name the conditions, and most of their values; labels that were learnt from the data are in the weights,
which are opened only for that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from solfa.files.torch_files import read_plain
from solfa.models.conditioners.key_names import KEYS
from solfa.xp.layout import BEST, CONFIG, LAST
from solfa.xp.record import read_settings

Kind = Literal["text", "labels", "number"]


@dataclass(frozen=True)
class ConditionFacts:
    """One condition and the values it takes."""

    name: str
    kind: Kind
    labels: tuple[str, ...] | None = None
    """The labels that the model knows; None if they are not known yet."""
    range: tuple[float, float] | None = None
    """The lowest and the highest number; others are clamped."""
    is_only_text: bool = False
    """Whether it is what `text` stands for: the only text condition of the model."""


def described_conditions(config: Mapping[str, Any], folder: Path) -> list[ConditionFacts]:
    """Describe the conditions in a model's settings."""
    group = config.get("conditioner")
    parts = group.get("conditioners") if isinstance(group, Mapping) else None
    if not isinstance(parts, Mapping):
        # A text model reads its captions itself.
        return [ConditionFacts("text", "text", is_only_text=True)] if isinstance(config.get("text"), Mapping) else []
    learnt = _Learnt(folder)
    found = [_describe(str(name), part, learnt) for name, part in parts.items() if isinstance(part, Mapping)]
    texts = [condition.name for condition in found if condition.kind == "text"]
    return [replace(condition, is_only_text=texts == [condition.name]) for condition in found]


def _describe(name: str, part: Mapping[str, Any], learnt: Callable[[str], Sequence[str] | None]) -> ConditionFacts:
    match part:
        case {"kind": "number" | "tempo", "min": int() | float() as low, "max": int() | float() as high}:
            return ConditionFacts(name, "number", range=(low, high))
        case {"kind": "tempo"}:
            return ConditionFacts(name, "number")
        case {"kind": "key"}:
            return ConditionFacts(name, "labels", labels=tuple(map(str, KEYS)))
        case {"kind": "labels"}:
            labels = part.get("vocabulary") or learnt(name)
            return ConditionFacts(name, "labels", labels=None if labels is None else tuple(map(str, labels)))
        case _:  # every other kind reads a text
            return ConditionFacts(name, "text")


class _Learnt:
    """The labels in an experiment's weights, by the name of the condition; the file is opened once, if at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._state: Mapping[str, Any] | None = None

    def __call__(self, name: str) -> Sequence[str] | None:
        if self._state is None:
            self._state = self._read()
        extra = self._state.get(f"conditioners.conditioners.{name}._extra_state")
        return extra.get("vocabulary") if isinstance(extra, Mapping) else None

    def _read(self) -> Mapping[str, Any]:
        path = next((self._folder / file for file in (BEST, LAST) if (self._folder / file).is_file()), None)
        if path is None:
            return _exported_state(self._folder)
        try:
            state = read_plain(path, mmap=True)["states"]["model"]
        except (ValueError, KeyError, TypeError):  # damaged, or of another kind of solver
            return {}
        return state if isinstance(state, Mapping) else {}


def _exported_state(folder: Path) -> Mapping[str, Any]:
    """Return what an exported model holds beside its tensors; nothing for other folders."""
    if not (folder / CONFIG).is_file():
        return {}
    found = read_settings(folder).get("extra_state")
    return found if isinstance(found, Mapping) else {}
