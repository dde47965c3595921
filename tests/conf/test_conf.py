from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest
import yaml

import solfa
from solfa.environment.teams import read_team
from solfa.solvers.catalogue import SOLVERS, find_solver
from solfa.solvers.config import SolverConfig

CONF = Path(solfa.__file__).parent / "conf"
GROUPS = {"solver", "model", "dset", "conditioner", "adapter", "experiment"}
FILES = sorted(path.relative_to(CONF) for path in CONF.rglob("*.yaml"))
NEEDED = {
    "flow": ["dset.train=music.solfa"],
    "lm": ["dset.train=music.solfa"],
    "compression": ["dset.train.path=songs"],
    "sashimi": ["dset.train.path=songs"],
    "mot": ["dset.train.path=music.solfa", "model.base=//tiny"],
}
"""What each solver leaves to the user."""
COMPLETE = {
    Path("dset/waveforms/built_in.yaml"),
    Path("experiment/compression/built_in.yaml"),
    Path("experiment/compression/continuous.yaml"),
}
"""Files that name all their data, in lists that such a value does not fit."""
OF_CODECS = {"codec", "compression", "waveforms"}
"""Folders inside a group whose files are for training codecs."""
OF_WAVEFORM_MODELS = {"sashimi", "samples", "audio"}
"""Folders inside a group whose files are for modelling samples."""
OF_FLOW_MODELS = {"flow", "latents"}
"""Folders inside a group whose files are for modelling latents."""
OF_AUDIO_EXPERTS = {"mot"}
"""Folders inside a group whose files are for audio experts on a text model."""


@cache
def settings_of(*paths: Path) -> SolverConfig:
    """Compose a run that chooses some files, each of another group, and validate it."""
    from solfa.train import main

    return main.settings(main.compose(overrides_for(*paths))).cfg


def task_of(path: Path) -> str:
    if path == Path("dset/audio/default.yaml"):
        return "lm"
    folder = path.parts[1]
    tasks = {"compression": OF_CODECS, "sashimi": OF_WAVEFORM_MODELS, "mot": OF_AUDIO_EXPERTS, "flow": OF_FLOW_MODELS}
    return next((task for task, folders in tasks.items() if folder in folders), "lm")


def overrides_for(*paths: Path) -> list[str]:
    """Choose files by their groups on top of a complete run."""
    chosen = {path.parts[0]: "/".join(path.with_suffix("").parts[1:]) for path in paths}
    task = task_of(paths[0])
    first = [] if chosen.keys() & {"solver", "experiment"} else [f"solver={task}/base"]
    needed = [] if COMPLETE & {*paths} else NEEDED[task]
    if "adapter" in chosen:
        needed = [*needed, "continue_from=weights"]
    return [*first, *(f"{group}={name}" for group, name in chosen.items()), *needed]


def runs() -> list[tuple[Path, ...]]:
    """Choose every file once: whole runs alone, parts of a run together with those of other groups, as users do."""
    tested = [path for path in FILES if path.parts[0] in GROUPS and path != Path("solver/standard.yaml")]
    whole = [(path,) for path in tested if path.parts[0] in ("solver", "experiment")]
    for task in NEEDED:
        parts = [path for path in tested if (path,) not in whole and task_of(path) == task]
        groups = [[path for path in parts if path.parts[0] == group] for group in sorted(GROUPS)]
        whole += [tuple(filter(None, row)) for row in zip_longest(*groups)]
    return whole


@pytest.mark.slow
@pytest.mark.parametrize("paths", runs(), ids=lambda paths: "+".join(map(str, paths)))
def test_every_file_of_a_group_composes_to_valid_settings(paths: tuple[Path, ...]) -> None:
    assert isinstance(settings_of(*paths), SolverConfig)


def test_there_is_no_file_that_nothing_checks() -> None:
    others = {path for path in FILES if path.parts[0] not in GROUPS}
    assert {path.parts[0] for path in others} == {"config.yaml", "teams", "pre_encode"}
    tested = {path for paths in runs() for path in paths} | {Path("solver/standard.yaml")}
    assert tested | others == {*FILES}
    for path in others:
        if path.parts[0] == "teams":
            assert read_team(CONF / path)


def test_every_solver_has_a_file_that_chooses_it() -> None:
    bases = [path for path in FILES if path.parts[0] == "solver" and path.name == "base.yaml"]
    assert sorted(yaml.safe_load((CONF / path).read_text())["solver"] for path in bases) == sorted(SOLVERS)


def test_the_shared_file_shows_every_key_that_all_solvers_have() -> None:
    shown = yaml.safe_load((CONF / "solver" / "standard.yaml").read_text())
    # The task names itself and its data.
    assert set(SolverConfig.model_fields) - set(shown) == {"solver", "dset", "dataset"}
    assert set(shown) <= set(SolverConfig.model_fields)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_names_its_own_config(name: str) -> None:
    assert issubclass(find_solver(name).Config, SolverConfig)
