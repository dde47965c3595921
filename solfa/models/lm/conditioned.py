"""A language model and its conditioners as one network: one forward pass, one optimiser, one checkpoint."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jaxtyping import Float, Int64
from torch import Tensor, nn

from solfa.models.conditioners.set import ConditionerSet, ConditionsConfig
from solfa.models.lm.conditions import Conditions
from solfa.models.lm.network import CodecLM, CodecLMConfig


class ConditionedLM(nn.Module):
    """Reads laid-out codes together with what is known about each clip."""

    def __init__(self, lm: CodecLM, conditioners: ConditionerSet) -> None:
        super().__init__()
        self.lm, self.conditioners = lm, conditioners

    def forward(self, inputs: Int64[Tensor, "B K S"], tokens: Mapping[str, Any]) -> Float[Tensor, "B K S V"]:
        """Return the logits of what follows each step."""
        conditions: Conditions = self.conditioners(tokens)
        logits: Tensor = self.lm(inputs, conditions)
        return logits

    def open_to_adapters(self) -> nn.Module:
        return self.lm


def build_conditioned_lm(
    model: CodecLMConfig,
    conditions: ConditionsConfig,
    num_codebooks: int,
    codebook_size: int,
    frame_rate: float,
    values_of: Callable[[str], Iterable[Any]] | None = None,
) -> ConditionedLM:
    """Size a model to its data; `values_of` returns a column of the training data, to learn labels from."""
    conditioners = ConditionerSet(conditions.at_rate(frame_rate), model.dim)
    needs = {"cross_attention": conditions.uses_cross_attention, "clock": conditions.uses_clock}
    sized = model.sized(num_codebooks, codebook_size, **needs)
    if values_of is not None:
        columns = conditions.sources
        conditioners.fit({name: values_of(columns[name]) for name in conditioners.to_fit})
    return ConditionedLM(CodecLM(sized), conditioners)
