"""The settings of LoRA: which layers get a low-rank product beside their weights, and how large it is."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Literal

from pydantic import Field

from solfa.config import Config


class Lora(Config):
    """A trained product of two thin matrices beside each frozen weight (arXiv 2106.09685).

    >>> from solfa.models import Lora
    >>> Lora(rank=8, alpha=16).scale
    2.0
    """

    kind: Literal["lora"] = "lora"
    rank: int = Field(default=16, ge=1)
    """The inner size of the product; more learns more, and takes more."""
    alpha: float = Field(default=16.0, gt=0)
    """The product is multiplied by alpha / rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """How much of a layer's input the product does not see, in training."""
    targets: tuple[str, ...] | None = None
    """Patterns for the names of layers, such as `*.self_attention.qkv`; None takes every linear layer of the blocks."""
    rslora: bool = False
    """Multiply by alpha / sqrt(rank), which suits high ranks (arXiv 2312.03732)."""
    dora: bool = False
    """Train the length of each row of a weight apart from its direction (arXiv 2402.09353)."""

    @property
    def scale(self) -> float:
        """The factor on the product."""
        return self.alpha / (self.rank**0.5 if self.rslora else self.rank)

    def for_peft(self, layers: Sequence[str], base: str | None = None) -> Any:
        """Say it as PEFT does, for these layers of a network; `base` names the weights they belong to."""
        peft: Any = import_module("peft")
        return peft.LoraConfig(
            r=self.rank,
            # Whole numbers are written as such: other readers expect one.
            lora_alpha=int(self.alpha) if self.alpha.is_integer() else self.alpha,
            lora_dropout=self.dropout,
            target_modules=list(layers),
            use_rslora=self.rslora,
            use_dora=self.dora,
            base_model_name_or_path=base,
            inference_mode=False,
        )
