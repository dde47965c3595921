"""The entry point as Dora finds it."""

import subprocess
import sys

import pytest

from tests.experiments.own_folder import ROOT, own_variables

pytestmark = pytest.mark.slow

LOOK = """
import pickle, sys, solfa.train
from solfa.solvers.catalogue import find_solver
find_solver("lm")
print(*(name for name in ("lightning_fabric", "transformers", "torch._dynamo", "diffusers") if name in sys.modules))
import dora.run
from dora._utils import get_main
main = get_main(package="solfa")
assert main is solfa.train.main and pickle.loads(pickle.dumps(main)) is main
assert (main.package, main.main_module, main.name) == ("solfa", "train", "solfa")
assert dora.run.start_ddp_workers.__module__ == "solfa.experiments.processes.ddp"
print(main.compose([]).cfg.solver, main.dora.dir)
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a fresh process says: heavy modules that are imported, and the task and the folder that Dora finds."""
    folder = tmp_path_factory.mktemp("dora")
    variables = own_variables(folder)
    del variables["SOLFA_SEARCH_PATH"]
    ran = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=200, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return folder, ran.stdout.splitlines()


def test_dora_finds_it_in_a_clone_and_can_send_it_to_a_job(told):
    folder, (_, found) = told
    assert found.split() == ["lm", str(folder)]
    assert list(folder.iterdir()) == []


def test_reading_settings_does_not_import_what_only_training_needs(told):
    _, (imported, _) = told
    assert imported == ""
