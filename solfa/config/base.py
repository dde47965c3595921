"""The base of every config model, and the message a user sees if a value does not fit."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from solfa.errors import ConfigError


class Config(BaseModel):
    """A frozen record that refuses unknown fields.

    >>> from solfa.config import Config, parse_config
    >>> class Size(Config):
    ...     num_frames: int = 1
    >>> parse_config(Size, {"num_frames": "3"}, "size.yaml")
    Size(num_frames=3)
    >>> parse_config(Size, {"num_framse": 3}, "size.yaml")
    Traceback (most recent call last):
    solfa.errors.ConfigError: size.yaml: num_framse: unknown field, did you mean 'num_frames'?
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


C = TypeVar("C", bound=Config)


def nearest(word: str, words: Iterable[str]) -> str:
    """Suggest the closest of `words` as the end of a sentence; empty if none is close.

    >>> from solfa.config import nearest
    >>> f"unknown codec 'encodek'{nearest('encodek', ['encodec', 'mimi'])}"
    "unknown codec 'encodek', did you mean 'encodec'?"
    """
    close = get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f", did you mean {close[0]!r}?" if close else ""


def parse_config(model: type[C], values: Mapping[str, Any], where: str) -> C:
    """Validate `values`; an error is one sentence that begins with `where`.

    >>> from solfa.config import parse_config
    >>> from solfa.data import Crop
    >>> parse_config(Crop, {"kind": "crop", "num_frames": 50, "batch_size": 0}, "data.yaml")
    Traceback (most recent call last):
    solfa.errors.ConfigError: data.yaml: batch_size: Input should be greater than 0, found 0
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(f"{where}: " + "; ".join(_sentences(model, error))) from None


def parse_parameters(model: type[C], values: Mapping[str, Any]) -> C:
    """Validate what a caller passed by name; an error names it as a parameter, which a command spells as its flag."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError("; ".join(_sentences(model, error, "`"))) from None


def _sentences(model: type[Config], error: ValidationError, quote: str = "") -> Iterable[str]:
    for fault in error.errors(include_url=False):
        field = ".".join(str(part) for part in fault["loc"])
        field = f"{quote}{field}{quote}" if field else ""
        if fault["type"] == "extra_forbidden":
            *outer, name = fault["loc"]
            yield f"{field}: unknown {'option' if quote else 'field'}{nearest(str(name), _fields_at(model, outer))}"
        elif fault["type"] == "missing":
            yield f"{field}: missing"
        elif fault["type"] in ("union_tag_invalid", "union_tag_not_found"):
            yield _tag_sentence(field, fault["ctx"])
        elif fault["type"] == "model_attributes_type" and "kind" in _fields_at(model, fault["loc"]):
            yield f"{field}: expected settings, found {fault['input']!r}; to choose a kind, set {field}.kind"
        else:
            found = "" if isinstance(fault["input"], dict) else f", found {fault['input']!r}"
            message = fault["msg"].removeprefix("Value error, ")
            is_named = not field or message.startswith(f"{field}.")
            yield message if is_named else f"{field}: {message}{found}"


def _tag_sentence(field: str, context: Mapping[str, Any]) -> str:
    """Name the possible variants; pydantic quotes the tag's name and each of its values."""
    tag = ".".join(part for part in (field, context["discriminator"].strip("'")) if part)
    if "tag" not in context:
        return f"{tag}: missing"
    known, found = re.findall("'([^']*)'", context["expected_tags"]), context["tag"]
    return f"{tag}: expected {' or '.join(map(repr, known))}, found {found!r}{nearest(found, known)}"


def _fields_at(model: type[Config], location: Iterable[int | str]) -> set[str]:
    """List the fields of the models at a place inside `model`; tags and list indices are skipped on the way."""
    models = [model]
    for part in location:
        fields = [found.model_fields[str(part)] for found in models if part in found.model_fields]
        if fields:
            models = [inner for field in fields for inner in _models_in(field.annotation)]
    return {name for found in models for name in found.model_fields}


def _models_in(annotation: Any) -> list[type[Config]]:
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return [annotation]
    return [found for argument in get_args(annotation) for found in _models_in(argument)]
