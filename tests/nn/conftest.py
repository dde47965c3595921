"""One thread: these tensors are too small to share."""

import pytest
import torch

from tests.conftest import seed_torch


@pytest.fixture(autouse=True)
def _one_thread_one_seed() -> None:
    torch.set_num_threads(1)
    seed_torch(0)
