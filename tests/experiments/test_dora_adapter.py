"""Dora has what Solfa uses of it; when a new version does not, these tests say what is to be changed in the adapter."""

import ast
import inspect
from argparse import Namespace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from dora.explore import Explorer
from dora.grid import RunGridArgs
from dora.shep import Sheep

from solfa.experiments.dora_adapter import last_of_each_key
from solfa.xp.layout import ARGV, HISTORY
from tests.source_texts import PACKAGE

ADAPTER = PACKAGE / "experiments" / "dora_adapter.py"

RELIED_ON = {
    "dora.hydra:HydraMain.__init__": ("self", "main", "config_name", "config_path", "kwargs"),
    "dora.hydra:HydraMain._get_base_config": ("self", "overrides"),
    "dora.hydra:HydraMain._get_config": ("self", "overrides"),
    "dora.hydra:HydraMain._get_config_groups": ("self",),
    "dora.hydra:HydraMain._get_config_noinit": ("self", "overrides"),
    "dora.hydra:HydraMain._get_delta": ("self", "init", "other"),
    "dora.hydra:HydraMain._get_dora": ("self",),
    "dora.hydra:HydraMain._main": ("self",),
    "dora.hydra:HydraMain.get_slurm_config": ("self",),
    "dora.hydra:HydraMain.get_xp": ("self", "argv"),
    "dora.hydra:_simplify_argv": ("argv",),
    "dora.main:DecoratedMain.get_argv_from_sig": ("self", "sig"),
    "dora.main:DecoratedMain.init_xp": ("self", "xp"),
    "dora.names:NamesMixin.get_names": ("self", "xps"),
    "dora.run:check_job_and_clear": ("argv", "main", "clear"),
    "dora.executor:start_ddp_workers": ("main", "argv", "num_workers"),
    "dora.xp:XP.__init__": ("self", "dora", "cfg", "argv", "delta", "sig"),
    "dora.grid:run_grid": ("main", "explorer", "grid_name", "rules", "slurm", "args"),
    "dora.launch:launch_action": ("args", "main"),
    "dora.shep:Sheep.log.fget": ("self",),
    "dora.shep:Shepherd.__init__": ("self", "main", "log"),
    "dora.explore:Launcher.__init__": ("self", "shepherd", "slurm", "herd", "argv", "pool"),
}
"""What is subclassed, replaced or called, with the parameters that it has."""


def found(name: str) -> Any:
    module, _, path = name.partition(":")
    value: Any = import_module(module)
    for part in path.split("."):
        value = getattr(value, part, None)
    return value


@pytest.mark.parametrize("name", RELIED_ON)
def test_dora_has_what_is_used_of_it(name):
    used = found(name)
    installed = f"Dora {version('dora-search')}"
    assert used is not None, f"{installed} has no {name} any more; change {ADAPTER.name}, which relies on it"
    parameters = tuple(inspect.signature(used).parameters)
    wanted = RELIED_ON[name]
    assert parameters == wanted, f"{installed}: {name} takes {parameters}, {ADAPTER.name} relies on {wanted}"


def test_dora_run_calls_what_is_replaced_by_its_name_in_that_module():
    source = inspect.getsource(found("dora.run:run_action"))
    for name in ("start_ddp_workers(main, args.argv, args.ddp_workers)", "check_job_and_clear(args.argv, main,"):
        assert name in source, f"dora.run.run_action does not call {name} any more; change supply_run in {ADAPTER.name}"


def test_dora_grid_and_launch_call_what_is_replaced_by_its_name_in_their_modules():
    called = {"dora.grid:grid_action": "run_grid(main, explorer, args.grid,", "dora.launch:launch_action": "Shepherd("}
    for action, call in called.items():
        assert call in inspect.getsource(found(action)), f"{action} does not call {call}; change {ADAPTER.name}"
    assert "sheep.log" in inspect.getsource(found("dora.info:info_action"))


def test_without_slurm_dora_touches_nothing_and_says_what_to_type(main, monkeypatch, capsys):
    import_module("solfa.train")  # which replaces it
    monkeypatch.setenv("PATH", "/nowhere")
    dry = RunGridArgs(dry_run=True, monitor=False, silent=True)
    run_grid = found("dora.grid:run_grid")
    explorer = Explorer(lambda launcher: None)
    assert run_grid(main, explorer, "mine", args=dry) == []
    xp = main.init_xp(main.compose(["solver=own"]))
    for call in (
        lambda: run_grid(main, explorer, "mine", args=RunGridArgs(clear=True)),
        lambda: found("dora.launch:launch_action")(Namespace(argv=["solver=own"], clear=True), main),
    ):
        with pytest.raises(SystemExit) as ended:
            call()
        assert ended.value.code == 2 and xp.folder.exists()
    told = capsys.readouterr().err
    assert "`solfa grid mine --local`" in told and "`dora run`" in told


def test_the_log_of_a_run_on_this_machine_is_the_one_that_dora_shows(main):
    import_module("solfa.train")  # which replaces it
    xp = main.init_xp(main.compose(["solver=own"]))
    assert Sheep(xp).log == xp.folder / "solver.log.0"


def test_dora_keeps_its_records_where_the_folder_s_layout_says(main):
    xp = main.compose([])
    assert (xp._argv_cache.name, xp.history.name) == (ARGV, HISTORY)
    assert main.grid_dir("a.b") == main.dora_dir / "grids" / "a.b"


def private_names(path: Path) -> set[str]:
    """List the private names of others that a module imports, or reads of anything but itself."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dora"):
            names |= {alias.name for alias in node.names if alias.name.startswith("_")}
        elif isinstance(node, ast.Attribute) and "dora" in ast.unparse(node.value):
            names |= {node.attr} if node.attr.startswith("_") else set()
    return names


def test_no_other_module_touches_what_is_private_to_dora():
    touching = {path.name: private_names(path) for path in PACKAGE.rglob("*.py") if path != ADAPTER}
    assert not {name: names for name, names in touching.items() if names}
    assert private_names(ADAPTER) == {"_simplify_argv", "_grids"}


def test_every_method_that_answers_dora_is_one_that_dora_asks():
    tree = ast.parse(ADAPTER.read_text())
    methods = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    private = {name for name in methods if name.startswith("_") and name != "__init__"}
    assert {f"dora.hydra:HydraMain.{name}" for name in private} <= RELIED_ON.keys()


def test_the_last_override_of_a_key_counts():
    assert last_of_each_key(["a=1", "b=2", "a=3"]) == ["b=2", "a=3"]
