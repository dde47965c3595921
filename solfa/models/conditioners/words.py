"""Text as a condition without a pretrained encoder: the words of a caption, each a row of a table that is trained.

    "Warm pianos" ──► warm, pianos ──► each word and its pieces (<wa, war, arm, rm>, ...), hashed ──► mean of their rows

As in fastText (Bojanowski et al. 2017), a word shares its pieces with words that are spelled alike, so one that never
came up in training still means something. Rows start at zero: what was never trained says nothing. The order of words
does not matter, which suits short captions.
"""

import logging
import re
import unicodedata
import zlib
from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from solfa.models.conditioners.protocol import AttributeConfig, Condition, Tokens, keep
from solfa.models.conditioners.text import as_text

logger = logging.getLogger(__name__)

PIECES = (3, 4, 5)
"""Lengths of the pieces of a word, its beginning and end included."""
MOST_PIECES = 48
"""A longer word, or text without spaces, is represented by the first of its pieces."""
_WORD = re.compile(r"\w+")


class WordsConfig(AttributeConfig):
    """The caption, or any text in the metadata, by its words; nothing is downloaded."""

    kind: Literal["words"]
    source: str = "caption"
    fuse: Literal["cross", "prepend", "sum"] = "cross"
    """Every layer attends to all words; before the first step or added to every step is their mean."""
    num_rows: int = Field(default=8192, ge=1)
    """Rows of the table; more rows keep more words apart."""
    width: int = Field(default=64, ge=1)
    """Numbers per row, which a projection brings to the model's width."""
    max_words: int = Field(default=64, ge=1)
    """Further words are left out."""

    def build(self, dim: int) -> "WordConditioner":
        return WordConditioner(self, dim)


def words_of(text: str) -> list[str]:
    """List the different words of a text in lower case and without accents, in the order they come up."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return list(dict.fromkeys(_WORD.findall(plain.casefold())))


def rows_of(word: str, num_rows: int) -> list[int]:
    """Hash a word and its pieces to rows of a table; the same on every machine."""
    framed = f"<{word}>"
    pieces = [framed[at : at + size] for size in PIECES for at in range(len(framed) - size + 1)]
    features = [word, *(f"-{piece}" for piece in pieces[:MOST_PIECES])]
    return [zlib.crc32(feature.encode()) % num_rows for feature in features]


class WordConditioner(nn.Module):
    """One vector per word: the mean of the rows of the word and its pieces, projected to the model's width."""

    def __init__(self, config: WordsConfig, dim: int) -> None:
        super().__init__()
        self.config = config
        self.table = nn.Embedding(config.num_rows, config.width, _weight=torch.zeros(config.num_rows, config.width))
        self.output_proj = nn.Linear(config.width, dim)
        self._reported = False

    def tokenize(self, values: Sequence[Any | None]) -> Tokens:
        """Return the rows of every word `[B, L, F]`, padded with -1; an absent or blank text has none."""
        texts = [self._words(as_text(value, self.config.source)) for value in values]
        hashed = [[rows_of(word, self.config.num_rows) for word in words] for words in texts]
        longest = max([1, *map(len, hashed)])
        most = max([1, *(len(rows) for words in hashed for rows in words)])
        padded = torch.full((len(texts), longest, most), -1, dtype=torch.int64)
        for at, words in enumerate(hashed):
            for place, rows in enumerate(words):
                padded[at, place, : len(rows)] = torch.tensor(rows)
        return {"rows": padded}

    def spell(self, value: Any | None) -> str:
        """Write a text as the words that it counts as."""
        return " ".join(self._words(as_text(value, self.config.source)))

    def embed(self, tokens: Tokens) -> Condition:
        rows = tokens["rows"].to(self.table.weight.device)
        there = rows >= 0
        words: Tensor = _mean(self.table(rows.clamp(min=0)), there)
        mask = there.any(dim=2)
        if self.config.fuse != "cross":
            words, mask = _mean(words, mask)[:, None], mask.any(dim=1, keepdim=True)
        return keep(self.output_proj(words), mask)

    def _words(self, text: str) -> list[str]:
        words, most = words_of(text), self.config.max_words
        if len(words) > most and not self._reported:
            self._reported = True
            logger.warning(
                "texts with more than %d different words are cut, for example %.60r; raise max_words", most, text
            )
        return words[:most]


def _mean(vectors: Tensor, there: Tensor) -> Tensor:
    """Average over the last axis of `there`, where it is true."""
    shares = there / there.sum(dim=-1, keepdim=True).clamp(min=1)
    return (vectors * shares[..., None]).sum(dim=-2)
