"""The best device of this machine is taken, or the one that was asked for, if it is here."""

import os
import subprocess
import sys

import pytest
import torch

from solfa.environment.accelerator import choose_device, has_no_gpu
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


@without_gpu
def test_where_no_driver_has_made_a_file_torch_need_not_be_asked():
    assert not has_no_gpu() or choose_device("auto") == "cpu"
    code = "import sys, solfa.environment.accelerator as it; it.choose_device('cpu'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has such files")
@pytest.mark.parametrize("names", [["null", "nvme0", "dri"], ["null", "nvidia0"], ["dxg"], ["kfd", "dri"]])
def test_drivers_are_known_by_their_files(names, monkeypatch):
    monkeypatch.setattr(os, "listdir", lambda path: {"/dev": names}[path])
    assert has_no_gpu() == (names[0] == "null" and names[1] == "nvme0")
