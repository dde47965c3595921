import subprocess
import sys

import pytest

from solfa.environment.bf16 import measure_bf16, probe_bf16


@pytest.mark.slow
def test_the_probe_answers_and_asks_the_machine_only_once():
    first = probe_bf16()
    assert isinstance(first, bool)
    assert probe_bf16() is first
    assert probe_bf16.cache_info().misses == 1


@pytest.mark.slow
def test_a_successful_probe_is_what_this_machine_computes():
    code = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); print((a @ a)[0, 0].item())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert probe_bf16() == (run.returncode == 0 and run.stdout.strip() == "64.0")


@pytest.mark.slow
def test_a_processor_gains_something_by_bf16_only_where_it_works():
    assert (measure_bf16() > 0) == probe_bf16()


def test_importing_the_environment_does_not_import_torch():
    code = "import sys, solfa.environment.doctor, solfa.environment.allocator; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
