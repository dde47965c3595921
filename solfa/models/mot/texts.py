"""Turn captions into what audio attends to: tokenized by the base, run once, cached as configured."""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field, field_validator
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from solfa.config import Config
from solfa.models.conditioners.text import as_text
from solfa.models.conditioners.text_cache import DTYPES, EmbeddingCache, open_cache, tokens_key
from solfa.models.mot.prefix import TextIds, TextPrefix, join_texts
from solfa.models.mot.text_base import FrozenLM

_SLOT = "{text}"

Text = str | Sequence[str] | None
"""A list is joined with commas."""


class TextsConfig(Config):
    """Which text comes before the audio, and how."""

    source: str = "caption"
    """`caption`, or a metadata column."""
    template: str = _SLOT
    """What the base reads; `{text}` is where the text goes. No chat template is applied."""
    max_tokens: int = Field(default=512, ge=1)
    """Longer texts are cut, with a warning."""
    dropout: float = Field(default=0.1, ge=0, le=1)
    """How often the text is dropped in training; guidance needs some of that."""
    cache: str = "memory"
    """Where to keep the base's keys and values for texts: `memory` (up to 1 GiB), a directory, or `none`."""
    cache_dtype: Literal["float32", "float16"] = "float32"

    @field_validator("template")
    @classmethod
    def _has_a_slot(cls, template: str) -> str:
        if _SLOT not in template:
            raise ValueError(f"expected a template with {_SLOT} in it, found {template!r}")
        return template


class Texts:
    """Tokenizes captions and caches the text model's keys and values for them.

    >>> from solfa.models import Texts, TextsConfig, load_base
    >>> texts = Texts(TextsConfig(), load_base("//tiny"))
    >>> texts.ids(["a bell", "a bell, struck twice"]).lengths
    tensor([ 7, 21])
    """

    def __init__(self, config: TextsConfig, base: FrozenLM) -> None:
        self.config, self.base = config, base

    def tokenize(self, text: Text) -> list[int]:
        """Return the ids of a text in its template; an absent or blank one is the tokenizer's empty text."""
        told = as_text(text, self.config.source)
        filled = self.config.template.replace(_SLOT, told) if told else ""
        return self.base.tokenize(filled, self.config.max_tokens)

    def spell(self, text: Text) -> str:
        """Write a text as the base reads it, token by token."""
        return " ".join(map(str, self.base.tokenizer.convert_ids_to_tokens(self.tokenize(text))))

    def prefix(self, texts: Sequence[Text], *, guided: bool = False) -> TextPrefix:
        """Return what audio attends to in each text; `guided` adds the empty text."""
        rows = [self._kept(self.tokenize(text)) for text in texts]
        return join_texts(rows, self._kept(self.tokenize(None)) if guided else None)

    def ids(self, texts: Sequence[Text]) -> TextIds:
        """Return the ids, padded to the longest text, and the number of tokens in each."""
        rows = [torch.tensor(self.tokenize(text), dtype=torch.int64, device=self.base.device) for text in texts]
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64, device=self.base.device)
        return TextIds(pad_sequence(rows, batch_first=True), lengths)

    @cached_property
    def _cache(self) -> EmbeddingCache:
        # A base with another precision stores other numbers.
        base = f"{self.base.fingerprint[:32]}-{str(self.base.dtype).removeprefix('torch.')}"
        return open_cache(self.config.cache, f"{base}-kv-{self.config.cache_dtype}")

    def _kept(self, ids: Sequence[int]) -> Float[Tensor, "parts H L E"]:
        if self.base.is_adapted:
            return self.base.keys_and_values(ids)  # which another adapter, or a further update, changes
        sizes = self.base.sizes
        key = tokens_key(ids)
        found = self._cache.get(key)
        if found is None:
            kept = self.base.keys_and_values(ids)
            # Rounded before its first use, too: a run must not depend on what was in the cache when it started.
            found = kept.permute(2, 0, 1, 3).flatten(1).to("cpu", DTYPES[self.config.cache_dtype])
            self._cache.put(key, found)
        shape = len(ids), 2 * sizes.num_layers, sizes.num_key_value_heads, sizes.head_dim
        return found.to(self.base.device, self.base.dtype).view(shape).permute(1, 2, 0, 3)
