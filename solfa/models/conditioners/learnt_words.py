"""Text as a condition in the words of the captions themselves: a small encoder that is trained with the model.

    "piano in A minor, 80 bpm" ──► piano in a minor (80) bpm ──► a row each ──► each with its neighbours ──► vectors
                                                  └ a number is a number: its place between the lowest and the highest

The vocabulary is every word of the training captions; it is small if captions are drawn by rule. A word that no caption
had is ignored, and a warning names it. Neighbours tell apart what one word cannot: the key of A minor, and a minor key.
"""

import logging
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn

from solfa.config import nearest
from solfa.errors import ConfigError
from solfa.models.conditioners.numbers import STEPS, FourierFeatures
from solfa.models.conditioners.protocol import AttributeConfig, Condition, Tokens, keep
from solfa.models.conditioners.text import as_text

logger = logging.getLogger(__name__)

NUMBER = 0
"""The row that all numbers share; where they are in their range comes on top."""
_TERM = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+[#♯♭]?")
_FEATURES = FourierFeatures()


class LearntWordsConfig(AttributeConfig):
    """The caption, or any text in the metadata, in a vocabulary that is learnt from it; nothing is downloaded."""

    kind: Literal["learnt_words"]
    source: str = "caption"
    fuse: Literal["cross", "prepend", "sum"] = "cross"
    """Every layer attends to all words; before the first step or added to every step is their sum."""
    width: int = Field(default=64, ge=1)
    """Numbers per row, which a projection brings to the model's width."""
    max_words: int = Field(default=64, ge=1)
    """Further words are left out."""

    def build(self, dim: int) -> "LearntWordConditioner":
        return LearntWordConditioner(self, dim)


class Vocabulary(NamedTuple):
    """The words that a model knows, and between which numbers those of its captions are."""

    words: tuple[str, ...]
    lowest: float
    highest: float


def terms_of(text: str) -> list[str]:
    """List the words and numbers of a text in order; words in lower case and without accents, numbers as digits.

    >>> from solfa.models.conditioners.learnt_words import terms_of
    >>> terms_of("Calm piano in C# minor, 80bpm")
    ['calm', 'piano', 'in', 'c#', 'minor', '80', 'bpm']
    """
    plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return _TERM.findall(plain.casefold())


def is_number(term: str) -> bool:
    """Say whether a term is a number."""
    return term[0].isdigit()


def learn_vocabulary(texts: Iterable[str]) -> Vocabulary:
    """Collect the words of all texts, sorted, and the range of their numbers."""
    terms = {term for text in texts for term in terms_of(text)}
    numbers = [float(term) for term in terms if is_number(term)]
    words = tuple(sorted(term for term in terms if not is_number(term)))
    return Vocabulary(words, min(numbers, default=0.0), max(numbers, default=0.0))


class LearntWordConditioner(nn.Module):
    """One vector per word: its row together with those of its neighbours, projected to the model's width.

    The vocabulary is part of the state dict, so a checkpoint knows its words without the dataset.
    """

    table: nn.Embedding | None

    def __init__(self, config: LearntWordsConfig, dim: int) -> None:
        super().__init__()
        self.config = config
        self.vocabulary: Vocabulary | None = None
        self.table = None
        self.number_proj = nn.Linear(_FEATURES.width, config.width)
        self.context = nn.Conv1d(config.width, config.width, kernel_size=3, padding=1)
        self.output_proj = nn.Linear(config.width, dim)
        self._rows: dict[str, int] = {}
        self._reported: set[str] = set()

    @property
    def learns(self) -> bool:
        return True

    def fit(self, values: Iterable[Any | None]) -> None:
        """Learn the vocabulary; with one from a checkpoint, words that it lacks are ignored, as in generation."""
        if self.vocabulary is not None:
            return
        found = learn_vocabulary(as_text(value, self.config.source) for value in values)
        if not found.words:
            raise ConfigError(
                f"words of {self.config.source!r}: no training clip has a text there; name a metadata column of the "
                "dataset that has one"
            )
        self._start(found)

    def tokenize(self, values: Sequence[Any | None]) -> Tokens:
        """Number the words of every text `[B, L]`, padded with -1, and place its numbers in their range."""
        texts = [self._known(as_text(value, self.config.source)) for value in values]
        longest = max([1, *map(len, texts)])
        rows = torch.full((len(texts), longest), -1, dtype=torch.int64)
        steps = torch.zeros(len(texts), longest, dtype=torch.int64)
        for at, terms in enumerate(texts):
            for place, term in enumerate(terms):
                rows[at, place] = self._rows.get(term, NUMBER)
                steps[at, place] = self._step(term) if is_number(term) else 0
        return {"rows": rows, "steps": steps}

    def spell(self, value: Any | None) -> str:
        """Write a text as the words that it counts as."""
        return " ".join(self._known(as_text(value, self.config.source)))

    def embed(self, tokens: Tokens) -> Condition:
        assert self.table is not None, "tokenize would have refused: the vocabulary is not known"
        rows, steps = (tokens[name].to(self.table.weight.device) for name in ("rows", "steps"))
        mask = rows >= 0
        words: Tensor = self.table(rows.clamp(min=0)) + self._numbers(rows, steps)
        words = words.masked_fill(~mask[..., None], 0.0)
        beside = self.context(words.transpose(1, 2)).transpose(1, 2)
        vectors = (words + F.gelu(beside)).masked_fill(~mask[..., None], 0.0)
        if self.config.fuse != "cross":
            # A sum and not a mean: that a caption has more words does not make each of them weaker.
            vectors, mask = vectors.sum(dim=1, keepdim=True), mask.any(dim=1, keepdim=True)
        return keep(self.output_proj(vectors), mask)

    def get_extra_state(self) -> dict[str, Any]:
        """Store the vocabulary as plain values, which `torch.load(weights_only=True)` can read."""
        known = self.vocabulary
        return {"words": None} if known is None else {**known._asdict(), "words": list(known.words)}

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Adopt a checkpoint's vocabulary; the rows follow, because torch loads children last."""
        if state["words"] is None:
            return
        stored = Vocabulary(tuple(state["words"]), float(state["lowest"]), float(state["highest"]))
        if self.vocabulary is None:
            self._start(stored)
        elif self.vocabulary != stored:
            others = sorted({*self.vocabulary.words} ^ {*stored.words})
            shown = f" ({', '.join(others[:8])}{' and more' if len(others) > 8 else ''})" if others else ""
            raise ConfigError(
                f"words of {self.config.source!r}: the captions have other words or numbers than those that the "
                f"checkpoint was trained with{shown}; use its captions, or train from scratch"
            )

    def _start(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._rows = {word: row for row, word in enumerate(vocabulary.words, start=NUMBER + 1)}
        width = self.config.width
        weight = torch.randn(len(vocabulary.words) + 1, width) * width**-0.5
        self.table = nn.Embedding(len(vocabulary.words) + 1, width, _weight=weight.to(self.output_proj.weight))

    def _numbers(self, rows: Tensor, steps: Tensor) -> Float[Tensor, "B L W"]:
        """Embed the numbers of texts, zero for words."""
        weight = self.number_proj.weight
        features = _FEATURES(steps.flatten().float() / STEPS).to(weight.dtype)
        placed: Tensor = self.number_proj(features).view(*steps.shape, -1)
        return placed.masked_fill((rows != NUMBER)[..., None], 0.0)

    def _known(self, text: str) -> list[str]:
        """List the terms of a text that the model knows, and warn once about each of the others."""
        if self.vocabulary is None:
            raise ConfigError(
                f"words of {self.config.source!r}: the vocabulary is not known yet; fit it to the training data, or "
                "load a checkpoint"
            )
        terms = terms_of(text)
        known = [term for term in terms if term in self._rows or (is_number(term) and self._has_numbers)]
        self._report([term for term in terms if term not in known])
        if len(known) > self.config.max_words and "" not in self._reported:
            self._reported.add("")
            logger.warning("texts of more than %d words are cut, for example %.60r", self.config.max_words, text)
        return known[: self.config.max_words]

    @property
    def _has_numbers(self) -> bool:
        return self.vocabulary is not None and self.vocabulary.lowest < self.vocabulary.highest

    def _step(self, term: str) -> int:
        assert self.vocabulary is not None
        _, lowest, highest = self.vocabulary
        placed = min(max(float(term), lowest), highest)
        if placed != float(term) and term not in self._reported:
            self._reported.add(term)
            logger.warning("words of %r: %s counts as %g, the nearest in training", self.config.source, term, placed)
        return round((placed - lowest) / (highest - lowest) * STEPS)

    def _report(self, unknown: Sequence[str]) -> None:
        new = [term for term in dict.fromkeys(unknown) if term not in self._reported]
        self._reported.update(new)
        if new:
            told = ", ".join(f"{term!r}{nearest(term, self._rows)}" for term in new)
            logger.warning("words of %r: ignored, because no training caption has them: %s", self.config.source, told)
