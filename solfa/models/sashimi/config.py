"""The settings of a SaShiMi: the sizes of its network, and its head, as `output_head: dml` and `n_mixtures: 10`."""

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from solfa.models.sashimi.heads import CategoricalHeadConfig, HeadConfig
from solfa.models.sashimi.network import SashimiConfig


class SashimiModelConfig(SashimiConfig):
    """The network and its head, written as `output_head: dml` and `n_mixtures: 10`."""

    output_head: HeadConfig = CategoricalHeadConfig()

    @model_validator(mode="before")
    @classmethod
    def _read_head(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        read = dict(values)
        head, n_mixtures = read.pop("output_head", None), read.pop("n_mixtures", None)
        if head is None:
            head = CategoricalHeadConfig().kind
        if isinstance(head, str):
            head = {"kind": head}
        if n_mixtures is not None and isinstance(head, Mapping):
            if head.get("kind") == CategoricalHeadConfig().kind:
                raise ValueError(
                    f"n_mixtures: found {n_mixtures} with a categorical head, which has no mixtures; remove it"
                )
            head = {**head, "n_mixtures": n_mixtures}
        return {**read, "output_head": head}
