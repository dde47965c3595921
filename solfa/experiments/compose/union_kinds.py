"""Choose another kind of something by one override: `optim.schedule.kind=constant`.

Hydra merges: what the file says of the old kind (`warmup_updates`) stays beside the new one, which does not know it.
Such settings are left out here. What no kind knows, and what was given on the command line, is left for the model to
refuse.
"""

from collections.abc import Collection, Mapping
from typing import Any, get_args

from pydantic.fields import FieldInfo

from solfa.config import Config


def leave_out_other_kinds(
    model: type[Config], values: Mapping[str, Any], given: Collection[str], outer: str = ""
) -> dict[str, Any]:
    """Drop, at any depth, settings that only other kinds of the same thing have; `given` are the overridden keys."""
    kept = dict(values)
    for name, field in model.model_fields.items():
        inner = values.get(name)
        if not isinstance(inner, Mapping):
            continue
        way = f"{outer}{name}."
        models = _models(field.annotation)
        if field.discriminator is not None:
            inner = _of_one_kind(field, models, inner, given, way)
            models = [found for found in models if _tag(found, str(field.discriminator)) == _chosen(field, inner)]
        kept[name] = leave_out_other_kinds(models[0], inner, given, way) if len(models) == 1 else dict(inner)
    return kept


def _of_one_kind(
    field: FieldInfo, models: list[type[Config]], values: Mapping[str, Any], given: Collection[str], way: str
) -> dict[str, Any]:
    tag = str(field.discriminator)
    chosen = {name for found in models if _tag(found, tag) == _chosen(field, values) for name in found.model_fields}
    others = {name for found in models for name in found.model_fields} - chosen
    if not chosen:
        return dict(values)
    return {key: value for key, value in values.items() if key not in others or f"{way}{key}" in given}


def _chosen(field: FieldInfo, values: Mapping[str, Any]) -> Any:
    return values.get(str(field.discriminator))


def _tag(model: type[Config], discriminator: str) -> Any:
    field = model.model_fields.get(discriminator)
    return get_args(field.annotation)[0] if field is not None and get_args(field.annotation) else None


def _models(annotation: Any) -> list[type[Config]]:
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return [annotation]
    return [found for argument in get_args(annotation) for found in _models(argument)]
