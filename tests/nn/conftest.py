"""One thread: these tensors are too small to share."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread_one_seed() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
