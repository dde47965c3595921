"""One thread, because these tensors are too small to share, and tiny MusicGen checkpoints."""

from pathlib import Path

import pytest
import torch

from tests.conftest import seed_torch


@pytest.fixture(autouse=True)
def _one_thread_one_seed() -> None:
    torch.set_num_threads(1)
    seed_torch(0)


@pytest.fixture(scope="session")
def bare_musicgen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `MusicgenForCausalLM` as transformers saves it."""
    from tests.models.tiny_musicgen import make_bare

    return make_bare(tmp_path_factory.mktemp("musicgen_bare") / "model")


@pytest.fixture(scope="session")
def whole_musicgen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `MusicgenForConditionalGeneration` as transformers saves it."""
    from tests.models.tiny_musicgen import make_whole

    return make_whole(tmp_path_factory.mktemp("musicgen_whole") / "model")
