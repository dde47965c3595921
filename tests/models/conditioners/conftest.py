"""Directories with tiny text encoders, written once per session."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from solfa.models.conditioners.text import TextConditioner, TextConfig
from tests.models.conditioners.tiny_encoders import write_bert, write_musicgen, write_t5

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="session")
def other_t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_t5(tmp_path_factory.mktemp("other_t5"), seed=1)


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def musicgen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_musicgen(tmp_path_factory.mktemp("musicgen"))


MakeText = Callable[..., TextConditioner]


@pytest.fixture
def make_text() -> MakeText:
    """Build a text conditioner of width 16 with the same projection every time."""

    def make(encoder: Path | str, **settings: object) -> TextConditioner:
        config = TextConfig.model_validate({"kind": "text", "encoder": str(encoder), **settings})
        torch.manual_seed(5)
        return config.build(16)

    return make
