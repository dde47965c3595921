"""Lets the tests of this folder import their helpers as `tests.codecs.tiny`, and run tiny networks on one thread."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    # Networks of a few channels spend their time waking threads up, most of all beside other tests.
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
