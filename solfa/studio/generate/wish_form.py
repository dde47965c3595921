"""The form of a wish: what was typed, and how it is read for one model."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from solfa.errors import ConfigError
from solfa.generate.condition_facts import ConditionFacts
from solfa.studio.generate.model_choice import ModelFacts, OptionField
from solfa.studio.generate.wish import Asked, read_number

MOST_CLIPS = 100
CONDITION, OPTION = "set.", "option."
"""What the fields of conditions and settings begin with; a model may have a condition of any name."""
HOWS = {
    "prompt": "continue it",
    "init": "make another version of it",
    "inpaint": "make a stretch of it anew",
}
"""What can be done with a recording, and its words on the page."""
ONLY_FOR = {"prompt_seconds": "prompt", "strength": "init", "from": "inpaint", "to": "inpaint"}
"""Fields that mean something for one of these alone."""


class Typed(dict[str, list[str]]):
    """What was typed into a form: names and values, several for a choice of many."""

    @classmethod
    def of(cls, items: Iterable[tuple[str, Any]]) -> "Typed":
        """Take what a query or a form holds, without files and empty fields."""
        typed = cls()
        for name, value in items:
            if isinstance(value, str) and value.strip():
                typed.setdefault(name, []).append(value)
        return typed

    def one(self, name: str, default: str = "") -> str:
        """Return the value of a field."""
        return self[name][0] if name in self else default

    def all(self, name: str) -> list[str]:
        """Return all values of a field."""
        return self.get(name, [])

    def link(self, path: str, **changes: str) -> str:
        """Make an address with these values, some of them changed; an empty one is left out."""
        kept = {**self, **{name: [value] for name, value in changes.items()}}
        pairs = [(name, value) for name, values in kept.items() for value in values if value]
        return f"{path}?{urlencode(pairs)}"


def read_wish(typed: Typed, facts: ModelFacts, model: str, find_recording: Callable[[str], Path]) -> Asked:
    """Read a form for a model, which a command would call `model`; an error is one sentence."""
    plain = {name: typed.one(name) for name in typed}
    text = typed.one("text").strip() or None
    if text is not None and facts.text is None:
        raise ConfigError(f"text: this model of the {facts.solver} solver takes no text; leave it out")
    num = read_number(plain, "num", "clips", whole=True)
    if num is not None and not 1 <= num <= MOST_CLIPS:
        raise ConfigError(f"clips: expected 1 to {MOST_CLIPS}, found {num}; for more, use solfa generate")
    epoch = read_number(plain, "epoch", "weights", whole=True)
    if epoch is not None and epoch not in facts.epochs:
        raise ConfigError(f"weights: {facts.name} kept no copy of epoch {epoch}; choose another")
    seed = read_number(plain, "seed", "seed", whole=True)
    seconds = read_number(plain, "seconds", "seconds")
    values: dict[str, Any] = {
        "model": model,
        "epoch": epoch,
        "text": text,
        "conditions": _conditions(typed, facts),
        "seconds": None if seconds is None else float(seconds),
        "num": 1 if num is None else num,
        "seed": 0 if seed is None else seed,
        "options": {field.name: value for field in facts.options if (value := _option(plain, field)) is not None},
        "audio_format": typed.one("format", "wav"),
        **_recording(plain, facts, find_recording),
    }
    if values["audio_format"] not in ("wav", "flac", "ogg"):
        raise ConfigError(f"format: expected wav, flac or ogg, found {values['audio_format']!r}")
    return Asked(**values)


def _conditions(typed: Typed, facts: ModelFacts) -> dict[str, Any]:
    known = {condition.name: condition for condition in facts.conditions if not condition.is_only_text}
    for field in typed:
        name = field.removeprefix(CONDITION)
        if field.startswith(CONDITION) and name not in known:
            raise ConfigError(f"{name}: this model has no such condition; leave it out")
    return {
        name: _condition(condition, typed.all(f"{CONDITION}{name}"))
        for name, condition in known.items()
        if f"{CONDITION}{name}" in typed
    }


def _condition(condition: ConditionFacts, values: list[str]) -> Any:
    if condition.kind == "number":
        return read_number({condition.name: values[0]}, condition.name, condition.name)
    if condition.kind == "labels" and condition.labels is not None:
        unknown = [value for value in values if value not in condition.labels]
        if unknown:
            raise ConfigError(f"{condition.name}: expected one of its labels, found {unknown[0]!r}")
        return values[0] if len(values) == 1 else values
    return values[0].strip()


def _option(plain: Mapping[str, str], field: OptionField) -> Any:
    name = f"{OPTION}{field.name}"
    if field.kind == "number":
        number = read_number(plain, name, field.name.replace("_", " "), whole=field.is_whole)
        return number if number is None or field.is_whole else float(number)
    if field.kind == "switch":
        return True if plain.get(name) else None
    chosen = plain.get(name)
    if chosen is not None and chosen not in field.choices:
        raise ConfigError(f"{field.name}: expected {' or '.join(field.choices)}, found {chosen!r}")
    return chosen


def _recording(plain: Mapping[str, str], facts: ModelFacts, find: Callable[[str], Path]) -> dict[str, Any]:
    """Read which recording to start from, and how."""
    how, used = plain.get("how", ""), plain.get("use", "")
    for name, needed in ONLY_FOR.items():
        if name in plain and how != needed:
            raise ConfigError(f"{name.replace('_', ' ')}: it is for a recording, to {HOWS[needed]}; leave it empty")
    if not used:
        if how:
            raise ConfigError(f"recording: expected one, to {HOWS.get(how, 'use')}; choose a file, or use a result")
        return {}
    if how not in HOWS:
        raise ConfigError(f"recording: say what to do with it: {', '.join(HOWS.values())}")
    if how != "prompt" and not facts.edits:
        raise ConfigError(f"recording: a model of the {facts.solver} solver can only {HOWS['prompt']}")
    numbers = {name: read_number(plain, name, name.replace("_", " ")) for name in ONLY_FOR}
    told = {name: None if value is None else float(value) for name, value in numbers.items()}
    given = {"inpaint_from": told.pop("from"), "inpaint_to": told.pop("to"), **told}
    return {how: find(used), **given}
