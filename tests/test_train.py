"""The entry point as Dora finds it."""

import subprocess
import sys

from tests.experiments.own_folder import ROOT, own_variables

LOOK = """
import pickle, dora.run, solfa.train
from dora._utils import get_main
main = get_main(package="solfa")
assert main is solfa.train.main and pickle.loads(pickle.dumps(main)) is main
assert (main.package, main.main_module, main.name) == ("solfa", "train", "solfa")
assert dora.run.start_ddp_workers.__module__ == "solfa.experiments.processes.ddp"
print(main.compose([]).cfg.solver, main.dora.dir)
"""


def test_dora_finds_it_in_a_clone_and_can_send_it_to_a_job(tmp_path):
    variables = own_variables(tmp_path)
    del variables["SOLFA_SEARCH_PATH"]
    ran = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=ROOT, env=variables, capture_output=True, text=True, timeout=200, check=False
    )
    assert (ran.returncode, ran.stdout.split()) == (0, ["lm", str(tmp_path)]), ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_reading_settings_does_not_import_what_only_training_needs():
    code = (
        "import sys, solfa.train; from solfa.solvers.catalogue import find_solver; find_solver('lm'); "
        "print(*(name for name in ('lightning', 'transformers', 'torch._dynamo', 'diffusers') if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout.strip() == ""
