"""Embeddings of texts, computed once: kept in memory, in a folder that many processes share, or nowhere.

    FOLDER/<encoder's fingerprint>-<pool>-<dtype>/3f/3f09….safetensors      one text, one file, created once

The name of a file is the hash of the text's tokens. With the fingerprint (weights and tokenizer) that is everything the
numbers depend on, so an embedding is never taken for that of another encoder.
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
"""What the embeddings of one conditioner may take in memory: 5,000 captions of T5-base, 64 tokens each."""


def tokens_key(ids: Sequence[int]) -> str:
    """Hash the tokens of a text."""
    return hashlib.sha256(np.asarray(ids, "<i8").tobytes()).hexdigest()


@runtime_checkable
class EmbeddingCache(Protocol):
    """Embeddings by key; what was put may be found again, or not."""

    def get(self, key: str) -> Float[Tensor, "L W"] | None: ...
    def put(self, key: str, embedding: Float[Tensor, "L W"]) -> None: ...


class NoCache:
    """Forgets everything."""

    def get(self, key: str) -> Float[Tensor, "L W"] | None:
        return None

    def put(self, key: str, embedding: Float[Tensor, "L W"]) -> None:
        return None


class MemoryCache:
    """Keeps what comes until it is full. In shuffled epochs that is hit more often than keeping the latest."""

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
                "the embeddings of %d texts fill the memory set aside for them, further texts are encoded every time; "
                "set the conditioner's cache to a directory to keep them all",
                len(self._embeddings),
            )


class FolderCache:
    """Keeps embeddings in a folder, each in a file that is created once and never changes."""

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
