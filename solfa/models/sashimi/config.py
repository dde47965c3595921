"""The settings of a SaShiMi: the sizes of its network, and its head, as `output_head: dml` and `n_mixtures: 10`."""

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from solfa.models.sashimi.heads import CategoricalHeadConfig, HeadConfig
from solfa.models.sashimi.network import SashimiConfig


class SashimiModelConfig(SashimiConfig):
    """The network and its head, written as `output_head: dml`, `n_mixtures: 10` and `prediction_order: 16`."""

    output_head: HeadConfig = CategoricalHeadConfig()

    @model_validator(mode="before")
    @classmethod
    def _read_head(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        read = dict(values)
        head = read.pop("output_head", None)
        given = {name: read.pop(name, None) for name in ("n_mixtures", "prediction_order")}
        given = {name: value for name, value in given.items() if value is not None}
        if head is None:
            head = CategoricalHeadConfig().kind
        if isinstance(head, str):
            head = {"kind": head}
        if given and isinstance(head, Mapping):
            if head.get("kind") == CategoricalHeadConfig().kind:
                name, value = next(iter(given.items()))
                raise ValueError(f"{name}: found {value} with a categorical head, which has none; remove it")
            head = {**head, **given}
        return {**read, "output_head": head}
