"""Labels as conditions: a table with one row per label, and one for everything unknown."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from pydantic import field_validator
from torch import Tensor, nn

from solfa.config import nearest
from solfa.errors import ConfigError
from solfa.models.conditioners.protocol import AttributeConfig, Condition, Tokens, keep

logger = logging.getLogger(__name__)

UNKNOWN = 0
"""The row for labels that are not in the vocabulary."""


class LabelsConfig(AttributeConfig):
    """One label or a list of labels from a metadata column."""

    kind: Literal["labels"]
    fuse: Literal["cross", "prepend", "sum"] = "prepend"
    vocabulary: tuple[str, ...] | None = None
    """None uses all labels of the training data, sorted. If given, all other labels share the unknown row."""

    @field_validator("vocabulary")
    @classmethod
    def _has_labels_once(cls, vocabulary: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if vocabulary is not None and (not vocabulary or len(set(vocabulary)) < len(vocabulary)):
            raise ValueError("expected at least one label, and no label twice")
        return vocabulary

    def build(self, dim: int) -> "LabelConditioner":
        return LabelConditioner(self, dim)


def labels_of(value: Any | None) -> list[str]:
    """List the labels of one clip as texts: a value or a list of values; none if absent or empty."""
    values = value if isinstance(value, list | tuple | set | frozenset) else [value]
    texts = [str(label).strip() for label in values if label is not None]
    return sorted({text for text in texts if text})


class LabelConditioner(nn.Module):
    """One vector per clip: the mean of its labels' rows.

    The vocabulary is part of the state dict, so a checkpoint knows its labels without the dataset. The table itself is
    the learned projection (from one-hot labels to the model's width).
    """

    table: nn.Embedding | None

    def __init__(self, config: LabelsConfig, dim: int) -> None:
        super().__init__()
        self.config = config
        self.dim = dim
        self.vocabulary: tuple[str, ...] | None = None
        self.table = None
        self._rows: dict[str, int] = {}
        self._reported: set[str] = set()
        # The table comes later; until then, something has to remember which device the module is on.
        self.register_buffer("_place", torch.empty(0), persistent=False)
        if config.vocabulary is not None:
            self._start(config.vocabulary)

    @property
    def learns(self) -> bool:
        return self.config.vocabulary is None

    def fit(self, values: Iterable[Any | None]) -> None:
        """Learn the vocabulary; an existing one (from a checkpoint) must contain every label."""
        assert self.learns
        found = {label for value in values for label in labels_of(value)}
        if self.vocabulary is None:
            if not found:
                raise ConfigError(
                    f"labels of {self.config.source!r}: no training clip has a value there; "
                    "name a metadata column of the dataset, or give the vocabulary"
                )
            self._start(tuple(sorted(found)))
        else:
            self._refuse_new(found - set(self.vocabulary))

    def tokenize(self, values: Sequence[Any | None]) -> Tokens:
        """Number the labels, padding rows with -1."""
        if self.vocabulary is None:
            raise ConfigError(
                f"labels of {self.config.source!r}: the vocabulary is not known yet; "
                "fit it to the training data, load a checkpoint, or set it in the config"
            )
        rows = [[self._row(label) for label in labels_of(value)] for value in values]
        longest = max((len(row) for row in rows), default=0) or 1
        padded = [row + [-1] * (longest - len(row)) for row in rows]
        return {"rows": torch.tensor(padded, dtype=torch.int64).reshape(len(rows), longest)}

    def embed(self, tokens: Tokens) -> Condition:
        assert self.table is not None, "tokenize would have refused: the vocabulary is not known"
        rows = tokens["rows"].to(self.table.weight.device)
        there = rows >= 0
        shares: Float[Tensor, "B M"] = there / there.sum(dim=1, keepdim=True).clamp(min=1)
        mean = (self.table(rows.clamp(min=0)) * shares[..., None]).sum(dim=1, keepdim=True)
        return keep(mean, there.any(dim=1, keepdim=True))

    def get_extra_state(self) -> dict[str, list[str] | None]:
        """Store the vocabulary as plain values, which `torch.load(weights_only=True)` can read."""
        return {"vocabulary": None if self.vocabulary is None else list(self.vocabulary)}

    def set_extra_state(self, state: Mapping[str, list[str] | None]) -> None:
        """Adopt a checkpoint's vocabulary; the rows follow, because torch loads children last."""
        stored = state["vocabulary"]
        if stored is None or self.vocabulary == tuple(stored):
            return
        if self.vocabulary is None:
            self._start(tuple(stored))
            return
        self._refuse_new(set(self.vocabulary) - set(stored))
        raise ConfigError(
            f"labels of {self.config.source!r}: the checkpoint has more labels, or another order; set its own in the "
            f"config: vocabulary: [{', '.join(stored)}]"
        )

    def _start(self, vocabulary: tuple[str, ...]) -> None:
        self.vocabulary = vocabulary
        self._rows = {label: row for row, label in enumerate(vocabulary, start=UNKNOWN + 1)}
        weight = torch.randn(len(vocabulary) + 1, self.dim) * self.dim**-0.5
        # If training never sees an unknown label, its row never moves: it should be neutral, not random.
        weight[UNKNOWN] = 0.0
        self.table = nn.Embedding(len(vocabulary) + 1, self.dim, _weight=weight.to(self._place))

    def _row(self, label: str) -> int:
        row = self._rows.get(label)
        if row is None and label not in self._reported:
            self._reported.add(label)
            hint = nearest(label, self._rows)
            logger.warning("labels of %r: %r counts as unknown%s", self.config.source, label, hint)
        return UNKNOWN if row is None else row

    def _refuse_new(self, labels: set[str]) -> None:
        if labels:
            shown = ", ".join(repr(label) for label in sorted(labels)[:8]) + (" and more" if len(labels) > 8 else "")
            raise ConfigError(
                f"labels of {self.config.source!r}: {shown} {'is' if len(labels) == 1 else 'are'} not in the "
                "checkpoint's vocabulary; leave these clips out, or train from scratch"
            )
