"""Text as a condition: the hidden states of a frozen encoder, projected to the model's width."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from solfa.errors import ConfigError
from solfa.models.conditioners.protocol import AttributeConfig, Condition, Tokens, keep
from solfa.models.conditioners.text_cache import DTYPES, EmbeddingCache, open_cache, tokens_key
from solfa.models.conditioners.text_encoder import FrozenTextEncoder


class TextConfig(AttributeConfig):
    """The caption, or any text in the metadata, through a pretrained encoder."""

    kind: Literal["text"]
    source: str = "caption"
    fuse: Literal["cross", "prepend", "sum"] = "cross"
    encoder: str
    """A directory written by `save_pretrained`, or a Hub id: T5, BERT, MiniLM, a MusicGen checkpoint, …"""
    pool: Literal["tokens", "mean"] = "tokens"
    """Condition on every token, or on their mean (as sentence encoders are trained for)."""
    project: bool = True
    """Bring the encoder's vectors to the model's width; false takes them as they are, as Stable Audio does."""
    max_tokens: int = Field(default=256, ge=1)
    """Longer texts are cut; prepended texts are padded to this."""
    cache: str = "memory"
    """`memory`, `none`, or a directory that several processes and runs can share."""
    cache_dtype: Literal["float32", "float16"] = "float32"

    @model_validator(mode="after")
    def _fits_together(self) -> "TextConfig":
        if self.fuse == "sum" and self.pool == "tokens":
            raise ValueError("fuse: sum needs a single vector per text; set pool: mean, or fuse: cross")
        if self.cache == "none" and self.cache_dtype != "float32":
            raise ValueError("cache_dtype has no effect with cache: none")
        return self

    def build(self, dim: int) -> "TextConditioner":
        return TextConditioner(self, dim)


class TextConditioner(nn.Module):
    """The vectors of a text's tokens. Only `output_proj`, MusicGen's `enc_to_dec_proj`, is trained and stored."""

    output_proj: nn.Linear | nn.Identity
    _place: Tensor
    """Has the device and the dtype of the model."""

    def __init__(self, config: TextConfig, dim: int) -> None:
        super().__init__()
        self.config = config
        self.encoder = FrozenTextEncoder(config.encoder, config.max_tokens)
        if not config.project and self.encoder.width != dim:
            raise ConfigError(
                f"text encoder {config.encoder}: project: false takes an encoder as wide as the model's conditions, "
                f"{dim}, found {self.encoder.width}; set project: true"
            )
        self.output_proj = nn.Linear(self.encoder.width, dim) if config.project else nn.Identity()
        self.register_buffer("_place", torch.zeros(0), persistent=False)

    def tokenize(self, values: Sequence[Any | None]) -> Tokens:
        """Return the token ids of every text, padded to the longest; an absent or blank text has none."""
        texts = [as_text(value, self.config.source) for value in values]
        encoded = iter(self.encoder.tokenize([text for text in texts if text]))
        rows = [torch.tensor(next(encoded) if text else [], dtype=torch.int64) for text in texts]
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        ids = pad_sequence(rows, batch_first=True) if rows else torch.zeros(0, 0, dtype=torch.int64)
        return {"ids": ids, "mask": torch.arange(ids.shape[1]) < lengths[:, None]}

    def spell(self, value: Any | None) -> str:
        """Write a text as the encoder reads it, token by token."""
        text = as_text(value, self.config.source)
        return self.encoder.spell(text) if text else ""

    def embed(self, tokens: Tokens) -> Condition:
        places = zip(tokens["ids"].tolist(), tokens["mask"].sum(dim=1).tolist(), strict=True)
        texts = [tuple(ids[:count]) for ids, count in places]
        found = {ids: self._embedding(ids) for ids in dict.fromkeys(texts) if ids}
        hidden, lengths = self._padded([found.get(ids) for ids in texts])
        mask = torch.arange(hidden.shape[1]) < lengths[:, None]
        return keep(self.output_proj(hidden.to(self._place)), mask.to(self._place.device))

    @cached_property
    def _cache(self) -> EmbeddingCache:
        if self.config.cache in {"memory", "none"}:
            return open_cache(self.config.cache, "")
        fingerprint = self.encoder.fingerprint[:32]
        return open_cache(self.config.cache, f"{fingerprint}-{self.config.pool}-{self.config.cache_dtype}")

    def _embedding(self, ids: Sequence[int]) -> Float[Tensor, "L W"]:
        """Look up one text, or encode it, on the host."""
        key = tokens_key(ids)
        embedding = self._cache.get(key)
        if embedding is None:
            hidden = self.encoder.encode(ids, self._place.device)
            pooled = hidden.mean(dim=0, keepdim=True) if self.config.pool == "mean" else hidden
            # Rounded before its first use, too: a run must not depend on what was in the cache when it started.
            embedding = pooled.to("cpu", DTYPES[self.config.cache_dtype])
            self._cache.put(key, embedding)
        return embedding.float()

    def _padded(self, rows: Sequence[Float[Tensor, "_ W"] | None]) -> tuple[Float[Tensor, "B L W"], Tensor]:
        """Stack embeddings of different lengths, with their lengths."""
        lengths = [0 if row is None else len(row) for row in rows]
        longest = max([1, *lengths])
        if self.config.fuse == "prepend" and self.config.pool == "tokens":
            # Nothing masks what comes before the first step, so the length must not depend on the batch.
            longest = self.config.max_tokens
        padded = torch.zeros(len(rows), longest, self.encoder.width)
        for target, row, length in zip(padded, rows, lengths, strict=True):
            if row is not None:
                target[:length] = row
        return padded, torch.tensor(lengths, dtype=torch.int64)


def as_text(value: Any | None, source: str) -> str:
    """Read a value as text: a list is joined with commas, an absent value is empty."""
    parts = value if isinstance(value, list | tuple) else [value]
    if not all(part is None or isinstance(part, str) for part in parts):
        raise ConfigError(f"text of {source!r}: expected a text or a list of texts, found {value!r}")
    return ", ".join(part.strip() for part in parts if part and part.strip())
