"""A solver is found by its module's name; what cannot be found is answered with what there is."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import solfa.solvers.tasks
from solfa.errors import ConfigError
from solfa.solvers.catalogue import SOLVERS, find_solver
from solfa.solvers.tasks.lm import LMSolver
from tests.solvers.toy import ToySolver

ONE = "from solfa.solvers.standard import StandardSolver\nclass MySolver(StandardSolver): ...\n"
TWO = ONE + "class OtherSolver(StandardSolver): ...\n"


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Write a module of somebody's own, which can be imported until the test ends."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def write(name: str, code: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_every_solver_of_this_package_is_in_the_table() -> None:
    tasks = Path(solfa.solvers.tasks.__file__).parent.glob("*.py")
    assert set(SOLVERS) == {path.stem for path in tasks if "(StandardSolver[" in path.read_text("utf-8")}
    for name, module in SOLVERS.items():
        assert find_solver(name).__module__ == module


@pytest.mark.parametrize("name", ["lm", "solfa.solvers.tasks.lm", "solfa.solvers.tasks.lm:LMSolver"])
def test_a_solver_of_this_package_has_a_short_and_a_long_name(name: str) -> None:
    assert find_solver(name) is LMSolver


@pytest.mark.parametrize("name", ["tests.solvers.toy", "tests.solvers.toy:ToySolver"])
def test_a_solver_of_ones_own_is_found_by_module_or_class(name: str) -> None:
    assert find_solver(name) is ToySolver


def test_a_module_at_the_top_is_named_with_its_class(own_module: Callable[[str, str], None]) -> None:
    own_module("my_experiments.py", TWO)
    assert find_solver("my_experiments:OtherSolver").__name__ == "OtherSolver"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("lmm", r".*package\.module:Class, found 'lmm', did you mean 'lm'"),
        ("", r".*lm.*, found ''"),
        ("standard", r".*lm.*, found 'standard'"),
        ("nobody.knows", r".*no module 'nobody\.knows'.*PYTHONPATH"),
        ("solfa.solvers.lmm:LMSolver", r".*no module 'solfa\.solvers\.lmm' "),
        ("tests.solvers.toy.ToySolver", r".*no module 'tests\.solvers\.toy\.ToySolver' "),
        (":ToySolver", r".*no module '' "),
        (".toy", r".*no module '\.toy' "),
        ("tests..toy", r".*no module 'tests\.\.toy' "),
        ("tests.solvers.toy:TySolver", r"tests\.solvers\.toy .*'TySolver', did you mean 'ToySolver'"),
        ("tests.solvers.toy:ToyConfig", r"tests\.solvers\.toy .*'ToyConfig'"),
        ("solfa.solvers.config", r".*StandardSolver in solfa\.solvers\.config, found none"),
    ],
)
def test_what_cannot_be_found_gets_one_sentence(name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=f"^solver: {told}"):
        find_solver(name)


def test_of_two_solvers_in_a_module_one_must_be_named(own_module: Callable[[str, str], None]) -> None:
    own_module("mine/tasks.py", TWO)
    with pytest.raises(ConfigError, match=r"found MySolver, OtherSolver; .*package\.module:Class"):
        find_solver("mine.tasks")
    assert find_solver("mine.tasks:MySolver").__name__ == "MySolver"


def test_an_imported_solver_does_not_count(own_module: Callable[[str, str], None]) -> None:
    own_module("mine/tasks.py", f"from tests.solvers.toy import ToySolver\n{ONE}")
    assert find_solver("mine.tasks").__name__ == "MySolver"


def test_what_a_module_itself_cannot_import_is_not_hidden(own_module: Callable[[str, str], None]) -> None:
    own_module("mine/__init__.py", "import something_not_installed\n")
    own_module("mine/tasks.py", ONE)
    with pytest.raises(ModuleNotFoundError, match="something_not_installed"):
        find_solver("mine.tasks")
