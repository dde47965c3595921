"""Data made ready by the first process of a run, for all of them."""

import threading
from pathlib import Path

import pytest

from solfa.data.sources.dset import Dset
from solfa.demo.demo_paths import place_demo
from solfa.environment.teams import Environment
from solfa.errors import ConfigError
from solfa.experiments.run.data import name_of_start, pinned, prepare_data
from solfa.solvers.config import SolverConfig
from solfa.solvers.fabric.devices import fastest_precision
from solfa.store.layout import is_dataset
from solfa.xp.layout import LAST, PREPARED
from tests.data.stored import numbered, store


def environment(folder: Path) -> Environment:
    from solfa.environment.teams import load_environment

    return load_environment({"SOLFA_DORA_DIR": str(folder), "HOME": str(folder)})


def config(folder: Path, **dset: object) -> SolverConfig:
    values = {"solver": "x", "optim": {"epochs": 1}, "dset": {"hold_out": {"clips": 2}, **dset}}
    return SolverConfig.model_validate(place_demo(values, folder))


@pytest.mark.slow
def test_the_others_get_what_the_first_prepared_in_the_same_start(tmp_path):
    cfg = config(tmp_path, train={"path": "//demo/drums", "codec": "mulaw:bits=8,sample_rate=4000"})
    place, folder = environment(tmp_path), tmp_path / "xp"
    now, before = {"SOLFA_RUN": "now"}, {"SOLFA_RUN": "before"}
    prepare_data(cfg, folder, place, before, is_first=True)
    found: list[SolverConfig] = []
    second = threading.Thread(
        target=lambda: found.append(prepare_data(cfg, folder, place, now, is_first=False)), daemon=True
    )
    second.start()
    second.join(0.5)
    assert second.is_alive(), "it must not take what an earlier start left"
    first = prepare_data(cfg, folder, place, now, is_first=True)
    second.join(30)
    assert found == [first]
    assert first.dset is not None and is_dataset(Path(first.dset.train[0].path))
    assert cfg.dset is not None and first.dset.hold_out == cfg.dset.hold_out


def test_a_run_without_data_of_its_own_is_left_alone(tmp_path):
    cfg = SolverConfig.model_validate({"solver": "x", "optim": {"epochs": 1}})
    assert prepare_data(cfg, tmp_path / "xp", environment(tmp_path), {}, is_first=False) is cfg
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_first_process_chooses_the_precision_and_the_run_keeps_it_wherever_it_goes_on(tmp_path):
    cfg = SolverConfig.model_validate({"solver": "x", "optim": {"epochs": 1}, "precision": "auto", "device": "cpu"})
    place, folder = environment(tmp_path), tmp_path / "xp"
    first = prepare_data(cfg, folder, place, {}, is_first=True)
    assert first.precision == fastest_precision("cpu") != "auto"
    assert prepare_data(cfg, folder, place, {}, is_first=False) == first
    other = "32-true" if first.precision == "bf16-mixed" else "bf16-mixed"
    (folder / PREPARED).write_text((folder / PREPARED).read_text().replace(first.precision, other))
    assert prepare_data(cfg, folder, place, {}, is_first=True) == first, "nothing has been trained yet"
    (folder / PREPARED).write_text((folder / PREPARED).read_text().replace(first.precision, other))
    (folder / LAST).touch()
    assert prepare_data(cfg, folder, place, {}, is_first=True).precision == other, "as on the machine it began on"
    fixed = cfg.model_copy(update={"precision": "16-mixed"})
    assert prepare_data(fixed, folder, place, {}, is_first=True) is fixed


@pytest.mark.parametrize(
    ("dset", "key"),
    [
        ({"train": {"path": "data/songs", "codec": "mulaw"}}, r"dset\.train\.path"),
        ({"train": "//demo/drums", "valid": "held out", "hold_out": None}, r"dset\.valid\.path"),
        ({"train": ["data/songs", "more"]}, r"dset\.train"),
    ],
)
def test_a_path_where_nothing_is_names_the_key_to_set(tmp_path, dset, key):
    with pytest.raises(ConfigError, match=rf"^{key}: .* does not exist; .*{key}=FOLDER"):
        prepare_data(config(tmp_path, **dset), tmp_path / "xp", environment(tmp_path), {}, is_first=True)


@pytest.mark.parametrize("name", ["SOLFA_RUN", "MASTER_PORT", "SLURM_JOB_ID", "TORCHELASTIC_RESTART_COUNT"])
def test_another_start_has_another_name(name):
    assert name_of_start({name: "1"}) != name_of_start({name: "2"})
    assert name_of_start({name: "1", "RANK": "0"}) == name_of_start({name: "1", "RANK": "1"})


def test_a_run_keeps_the_state_of_a_dataset_that_grows(tmp_path, caplog):
    root = store(tmp_path / "songs.solfa", numbered(4))
    dset = Dset.model_validate({"train": str(root), "hold_out": {"clips": 1}})
    first = pinned(dset, None)
    assert first.train[0].manifest == 1
    store(root, numbered(3, prefix="new"))
    with caplog.at_level("INFO"):
        assert pinned(dset, first) == first
    assert "using manifest 1" in caplog.text
    # A run that did not begin yet takes the latest, and a state that was asked for is left alone.
    assert pinned(dset, None).train[0].manifest == 2
    chosen = Dset.model_validate({"train": {"path": str(root), "manifest": 1}, "hold_out": {"clips": 1}})
    assert pinned(chosen, pinned(dset, None)) == chosen


def test_a_run_keeps_to_the_table_that_it_began_with(tmp_path):
    from solfa.data.sources.stage_source import open_stage
    from solfa.errors import ConfigError

    root, table = store(tmp_path / "songs.solfa", numbered(4)), tmp_path / "captions.csv"
    table.write_text("file,caption\nclip000,a\nclip001,b\n")
    source = {"path": str(root), "table": {"path": str(table), "key": "file"}}
    dset = Dset.model_validate({"train": source, "hold_out": {"clips": 1}})
    first = pinned(dset, None)
    assert first.train[0].table.sha256 and pinned(dset, first) == first
    table.write_text("file,caption\nclip000,a\nclip001,B\n")
    assert pinned(dset, None) != first
    with pytest.raises(ConfigError, match=r"expected .*SHA-256"):
        open_stage(pinned(dset, first), "train")
    store(root, numbered(3, prefix="new"))
    assert pinned(dset, first).train[0].manifest == 1
