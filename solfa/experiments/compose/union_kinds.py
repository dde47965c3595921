"""Let one override switch to another kind: `optim.schedule.kind=constant`.

Hydra merges, so settings of the old kind (`warmup_updates`) stay in place, and the new kind does not know them. They
are dropped here. Settings that no kind knows, or that came from the command line, are left for the model to refuse.
"""

from collections.abc import Collection, Mapping
from typing import Any, get_args

from pydantic.fields import FieldInfo

from solfa.config import Config


def leave_out_other_kinds(
    model: type[Config], values: Mapping[str, Any], given: Collection[str], outer: str = ""
) -> dict[str, Any]:
    """Drop, at any depth, settings that belong only to kinds not chosen; `given` are the overridden keys."""
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
