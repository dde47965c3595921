"""Directories with tiny bases and donors, written once per session."""

import os
from pathlib import Path

import pytest

from tests.models.mot.tiny_mot import write_base, write_donor

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama with Llama 3's RoPE scaling, and heads that share keys and values."""
    return write_base(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="session")
def other_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same sizes, other weights."""
    return write_base(tmp_path_factory.mktemp("other_llama"), scale=1.1)


@pytest.fixture(scope="session")
def biased_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama whose projections have biases, and whose output is its embedding."""
    directory = tmp_path_factory.mktemp("biased_llama")
    return write_base(directory, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, num_key_value_heads=4)


@pytest.fixture(scope="session")
def donor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A MusicGen decoder that is narrower and deeper than the bases."""
    return write_donor(tmp_path_factory.mktemp("musicgen"))
