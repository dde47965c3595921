"""All conditions of a model: one conditioner per attribute, fused in four ways."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import torch
from jaxtyping import Bool
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn

from solfa.config import Config, nearest
from solfa.errors import ConfigError
from solfa.models.conditioners.key import KeyConfig
from solfa.models.conditioners.labels import LabelsConfig
from solfa.models.conditioners.learnt_words import LearntWordsConfig
from solfa.models.conditioners.numbers import NumberConfig
from solfa.models.conditioners.protocol import (
    Condition,
    Conditioner,
    HasNearMisses,
    LearnsVocabulary,
    SpellsTokens,
    Tokens,
)
from solfa.models.conditioners.tempo import TempoConfig
from solfa.models.conditioners.text import TextConfig
from solfa.models.conditioners.words import WordsConfig
from solfa.models.lm.conditions import Conditions

logger = logging.getLogger(__name__)

ConditionerConfig: TypeAlias = Annotated[
    TextConfig | WordsConfig | LearntWordsConfig | LabelsConfig | NumberConfig | TempoConfig | KeyConfig,
    Field(discriminator="kind"),
]
TEXT_KINDS = frozenset({"text", "words", "learnt_words"})
"""The kinds of conditions that a text is given to."""
FOUND_IN_TEXT = frozenset({"tempo", "key"})
"""The kinds that look for something in the same text."""
_SUCH = {"tempo": "96 or 96 bpm", "key": "A minor"}


class ConditionsConfig(Config):
    """The attributes a model is conditioned on, by the names used for generation."""

    conditioners: Mapping[str, ConditionerConfig] = Field(default_factory=dict)
    guidance_dropout: float = Field(default=0.0, ge=0.0, le=1.0)
    """How often all attributes of a clip are dropped together in training; guidance needs some of that."""

    @field_validator("conditioners")
    @classmethod
    def _names_are_usable(cls, conditioners: Mapping[str, ConditionerConfig]) -> Mapping[str, ConditionerConfig]:
        for name in conditioners:
            if not name.isidentifier() or hasattr(nn.ModuleDict, name):
                raise ValueError(f"{name!r} cannot be the name of a condition; choose another name and keep its source")
        return conditioners

    @model_validator(mode="after")
    def _has_what_is_dropped(self) -> "ConditionsConfig":
        if self.guidance_dropout and not self.conditioners:
            raise ValueError("guidance_dropout has no effect without conditioners; set it to 0")
        return self

    @property
    def sources(self) -> dict[str, str]:
        """Where each attribute comes from: `caption` or a metadata column."""
        return {name: config.source for name, config in self.conditioners.items()}

    @property
    def dropouts(self) -> dict[str, float]:
        """How often each attribute alone is dropped in training."""
        return {name: config.dropout for name, config in self.conditioners.items()}

    @property
    def uses_cross_attention(self) -> bool:
        """Whether the model needs cross-attention."""
        return any(config.fuse == "cross" for config in self.conditioners.values())

    @property
    def uses_clock(self) -> bool:
        """Whether the model needs a clock."""
        return any(config.fuse == "clock" for config in self.conditioners.values())

    def at_rate(self, frame_rate: float | None) -> "ConditionsConfig":
        """Fill in how many steps a second has, where a condition has to know it."""
        sized = {
            name: config.model_copy(update={"frame_rate": frame_rate})
            if isinstance(config, TempoConfig) and config.frame_rate is None
            else config
            for name, config in self.conditioners.items()
        }
        return self.model_copy(update={"conditioners": sized})


class ConditionerSet(nn.Module):
    """Turns rows of attributes into the conditions of a batch.

    >>> from solfa.models import ConditionerSet, ConditionsConfig, NumberConfig
    >>> bpm = NumberConfig(kind="number", source="bpm", min=40, max=220)
    >>> conditioners = ConditionerSet(ConditionsConfig(conditioners={"bpm": bpm}), dim=16)
    >>> conditions = conditioners(conditioners.tokenize([{"bpm": 120}, {}]))
    >>> conditions.summed.shape
    torch.Size([2, 1, 16])
    """

    def __init__(self, config: ConditionsConfig, dim: int) -> None:
        super().__init__()
        self.config = config
        self._reported: set[tuple[str, str]] = set()
        self.conditioners = nn.ModuleDict({name: part.build(dim) for name, part in config.conditioners.items()})

    @property
    def to_fit(self) -> tuple[str, ...]:
        """The names of the attributes whose vocabulary comes from the data."""
        return tuple(
            name for name, module in self.conditioners.items() if isinstance(module, LearnsVocabulary) and module.learns
        )

    def fit(self, values: Mapping[str, Iterable[Any | None]]) -> None:
        """Show all values of the training data to the conditioners in `to_fit`, before the optimiser is built."""
        for name in self.to_fit:
            conditioner = self.conditioners[name]
            if name not in values:
                raise ConfigError(f"conditioner {name}: fitting it needs the values of the training data")
            assert isinstance(conditioner, LearnsVocabulary)
            conditioner.fit(values[name])

    def tokenize(self, rows: Sequence[Mapping[str, Any | None]]) -> dict[str, Tokens]:
        """Turn the attributes of a batch into tensors on the host; missing ones are absent."""
        for name in {name for row in rows for name in row} - set(self.conditioners):
            raise ConfigError(f"`conditions`: the model has none named {name!r}{nearest(name, self.conditioners)}")
        return {
            name: conditioner.tokenize([row.get(name) for row in rows]) for name, conditioner in self._conditioners()
        }

    def forward(self, tokens: Mapping[str, Tokens]) -> Conditions:
        """Embed a batch on the parameters' device."""
        fused: dict[str, list[Condition]] = {"cross": [], "prepend": [], "sum": [], "clock": []}
        for name, conditioner in self._conditioners():
            fused[self.config.conditioners[name].fuse].append(conditioner.embed(tokens[name]))
        cross, prepended, summed, pulses = ([part.embedding for part in parts] for parts in fused.values())
        return Conditions(
            cross=torch.cat(cross, dim=1) if cross else None,
            cross_mask=attended(torch.cat([part.mask for part in fused["cross"]], dim=1)) if cross else None,
            prepended=torch.cat(prepended, dim=1) if prepended else None,
            summed=torch.stack(summed).sum(dim=0) if summed else None,
            pulses=torch.stack(pulses).sum(dim=0)[..., 0] if pulses else None,
        )

    def checked(self, rows: Sequence[Mapping[str, Any | None]]) -> Callable[[], Conditions]:
        """Check the attributes of clips now, and embed them when called."""
        tokens = self.tokenize(rows)
        self._report_lost(rows)
        return lambda: self.forward(tokens)

    def near_misses(self, row: Mapping[str, Any | None]) -> list[dict[str, Any | None]]:
        """List what a clip could be heard as instead of what a row says: the same but for one value."""
        return [
            {**row, name: other}
            for name, conditioner in self._conditioners()
            if isinstance(conditioner, HasNearMisses)
            for other in conditioner.near_misses(row.get(name))
        ]

    def null(self, batch: int) -> Conditions:
        """Return the conditions of `batch` rows in which everything is absent."""
        conditions: Conditions = self(self.tokenize([{}] * batch))
        return conditions

    def _report_lost(self, rows: Sequence[Mapping[str, Any | None]]) -> None:
        """Warn of a tempo or key that is none, unless it is the clip's text, which need not name one."""
        kinds = {name: part.kind for name, part in self.config.conditioners.items()}
        lost = {
            (name, value): kind
            for row in rows
            for name, kind in kinds.items()
            if kind in FOUND_IN_TEXT and isinstance(value := row.get(name), str)
            if value not in [row.get(other) for other in kinds if kinds[other] in TEXT_KINDS]
            if not self._spelled(name, value)
        }
        new = [key for key in lost if key not in self._reported]
        self._reported.update(new)
        for name, value in new:
            kind = lost[name, value]
            logger.warning(
                "condition %s: found no %s in %r, such as %s; it is left out", name, kind, value, _SUCH[kind]
            )

    def _spelled(self, name: str, value: str) -> str:
        conditioner = self.conditioners[name]
        assert isinstance(conditioner, SpellsTokens)
        return conditioner.spell(value)

    def _conditioners(self) -> Iterable[tuple[str, Conditioner]]:
        for name, module in self.conditioners.items():
            assert isinstance(module, Conditioner)
            yield name, module


def attended(mask: Bool[Tensor, "B L"]) -> Bool[Tensor, "B L"]:
    """Let empty rows attend to their zeros, which gives zero; masking everything would give NaN."""
    return mask | ~mask.any(dim=1, keepdim=True)
