"""The best device of this machine is taken, or the one that was asked for, if it is here."""

import pytest
import torch

from solfa.environment.accelerator import choose_device
from solfa.errors import ConfigError

without_gpu = pytest.mark.skipif(
    torch.cuda.is_available() or torch.backends.mps.is_available(), reason="there is a GPU"
)


@without_gpu
def test_without_a_gpu_the_cpu_is_taken_and_a_gpu_refused():
    assert choose_device("auto") == choose_device("cpu") == "cpu"
    for device in ("cuda", "cuda:1", "mps", "tpu"):
        with pytest.raises(ConfigError, match=f"^`device={device}`: .*cpu or auto"):
            choose_device(device)


@pytest.mark.parametrize(("cuda", "mps", "best"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")])
def test_the_best_is_a_gpu_where_there_is_one(cuda, mps, best, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert choose_device("auto") == best
    assert not cuda or choose_device("cuda:1") == "cuda:1"
