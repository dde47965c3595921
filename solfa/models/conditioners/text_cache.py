"""Text embeddings, computed once and kept in memory, in a folder that many processes share, or not at all.

    FOLDER/<encoder's fingerprint>-<pool>-<dtype>/3f/3f09….safetensors      one text, one file, created once

The file name is a hash of the text's tokens. Together with the fingerprint (weights and tokenizer), that is everything
the numbers depend on, so embeddings of different encoders are never confused.
"""

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from solfa.errors import StoreError
from solfa.files.whole_files import create_once

logger = logging.getLogger(__name__)

MEMORY_BYTES = 2**30
"""How much memory the embeddings of one conditioner may take: 5,000 captions of 64 tokens with T5-base."""


def tokens_key(ids: Sequence[int]) -> str:
    """Hash the tokens of a text."""
    return hashlib.sha256(np.asarray(ids, "<i8").tobytes()).hexdigest()


@runtime_checkable
class EmbeddingCache(Protocol):
    """Embeddings by key; a stored embedding may or may not be found again."""

    def get(self, key: str) -> Float[Tensor, "L W"] | None: ...
    def put(self, key: str, embedding: Float[Tensor, "L W"]) -> None: ...


class NoCache:
    """Forgets everything."""

    def get(self, key: str) -> Float[Tensor, "L W"] | None:
        return None

    def put(self, key: str, embedding: Float[Tensor, "L W"]) -> None:
        return None


class MemoryCache:
    """Keeps embeddings until it is full. In shuffled epochs, that gives more hits than keeping the latest."""

    def __init__(self, max_bytes: int = MEMORY_BYTES) -> None:
        self._embeddings: dict[str, Float[Tensor, "L W"]] = {}
        self._free_bytes = max_bytes
        self._reported = False

    def get(self, key: str) -> Float[Tensor, "L W"] | None:
        return self._embeddings.get(key)

    def put(self, key: str, embedding: Float[Tensor, "L W"]) -> None:
        if embedding.nbytes <= self._free_bytes:
            self._embeddings[key] = embedding
            self._free_bytes -= embedding.nbytes
        elif not self._reported:
            self._reported = True
            logger.warning(
                "the text cache is full after %d texts, so further texts are encoded every time; "
                "set the conditioner's cache to a directory to keep them all",
                len(self._embeddings),
            )


class FolderCache:
    """Keeps each embedding in a file of its own, which is created once and never changes."""

    def __init__(self, root: Path, name: str) -> None:
        self._root = root
        self._folder = root / name

    def get(self, key: str) -> Float[Tensor, "L W"] | None:
        path = self._path(key)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return load(content)["embedding"]
        except (SafetensorError, KeyError) as error:
            raise StoreError(f"{path}: not a stored text embedding ({error}); delete the file") from error

    def put(self, key: str, embedding: Float[Tensor, "L W"]) -> None:
        create_once(self._root, self._path(key), save({"embedding": embedding.contiguous()}))

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.safetensors"


def open_cache(cache: str, name: str) -> EmbeddingCache:
    """Open `memory`, `none`, or a directory; `name` says whose embeddings they are."""
    if cache == "none":
        return NoCache()
    if cache == "memory":
        return MemoryCache()
    return FolderCache(Path(cache).expanduser(), name)


DTYPES = {"float32": torch.float32, "float16": torch.float16}
