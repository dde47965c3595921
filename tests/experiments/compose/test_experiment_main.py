"""From overrides to an experiment: the signature, the folder, and one sentence for a mistake."""

import shutil

import pytest
from dora.hydra import _compare_config
from dora.xp import _get_sig

from solfa.errors import ConfigError, StoreError
from solfa.experiments.compose.overrides import as_overrides
from tests.experiments.own_folder import make_main

OWN = "solver=own"


def test_the_signature_is_the_one_that_dora_gives(main):
    argv = [OWN, "optim.epochs=7", "target=2.5", "device=auto"]
    base, delta = main._get_base_config(argv)
    delta = delta + [
        (".".join(found.path), found.other_value)
        for found in _compare_config(base, main._get_config(argv), [])
        if not main.dora.is_excluded(".".join(found.path))
    ]
    xp = main.compose(argv)
    assert xp.sig == _get_sig(delta) == main.get_xp(argv).sig
    assert xp.folder == main.environment.dora_dir / "xps" / xp.sig


def test_where_and_how_it_runs_does_not_change_the_signature(main):
    where = ["device=cuda", "strategy=ddp", "num_nodes=2", "execute_only=valid", "on_changed_default=adopt"]
    where += ["logging.tensorboard=true", "checkpoint.minutes=3", "checkpoint.keep_last=2"]
    signature = main.compose([OWN]).sig
    assert main.compose([OWN, *where]).sig == signature
    assert main.compose([OWN, "optim.epochs=2"]).sig == signature  # as it is by default


def test_the_number_of_data_workers_does_not_change_the_signature(main):
    argv = ["solver=lm/debug"]
    assert main.compose([*argv, "dataset.num_workers=8"]).sig == main.compose(argv).sig


def test_what_changes_the_numbers_changes_the_signature(main):
    overrides = ["seed=4", "optim.epochs=3", "optim.ema=null", "optim.schedule.kind=cosine", "precision=bf16-true"]
    signatures = {main.compose([OWN, *override]).sig for override in ([], *([one] for one in overrides))}
    assert len(signatures) == 1 + len(overrides)


def test_settings_by_name_are_the_same_experiment_as_typed_ones(main):
    named = as_overrides({"solver": "own", "optim": {"epochs": 3, "schedule": {"kind": "cosine"}}, "target": 2.5})
    typed = [OWN, "optim.epochs=3", "optim.schedule.kind=cosine", "target=2.5"]
    assert main.compose([*named]).sig == main.compose(typed).sig


def test_the_last_of_equal_keys_counts(main):
    assert main.compose([OWN, "target=1", "target=2"]).sig == main.compose([OWN, "target=2"]).sig


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("solver=onw", "solver=onw: .*did you mean 'own'"),
        ("sovler=own", "sovler=own: .*'sovler', did you mean 'solver'"),
        ("optim.updates_per_epohc=3", r"optim\.updates_per_epohc: .*did you mean 'updates_per_epoch'"),
        ("checkpoint.minuets=3", r"checkpoint\.minuets: .*did you mean 'minutes'"),
        ("epochs=3", r"epochs: .*optim\.epochs"),
        ("+target=3", r"remove \+ prefix"),
        ("optim.epochs=${nothing}", "'nothing'"),
    ],
)
def test_a_mistake_is_one_sentence_and_names_what_is_near(main, override, told):
    with pytest.raises(ConfigError, match=told) as error:
        main.compose([OWN, override])
    assert "\n" not in str(error.value)


def test_the_value_of_a_variable_is_not_shown(main, monkeypatch):
    monkeypatch.setenv("TOKEN", "secret123")
    for override in ("optim.epochs=${oc.env:TOKEN}", "++optim.epochs=x-${oc.env:TOKEN}"):
        with pytest.raises(ConfigError, match=r"\$\{oc\.env:TOKEN\}") as error:
            main.check(main.compose([OWN, override]))
        assert "secret" not in str(error.value)


def test_dora_is_answered_with_the_sentence_and_two(main, capsys):
    with pytest.raises(SystemExit) as ended:
        main.get_xp(["solver=onw"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("solfa: solver=onw: ")


def test_values_are_checked_before_anything_is_cleared(main):
    xp = main.compose([OWN, "optim.epochs=many"])
    with pytest.raises(ConfigError, match=r"optim\.epochs: .*found 'many'"):
        main.check(xp, is_cleared=True)


def test_clearing_removes_the_folder_and_leaves_nothing_beside_it(main):
    xp = main.compose([OWN])
    main.init_xp(xp)
    main.clear(xp)
    main.clear(xp)
    assert list(xp.folder.parent.iterdir()) == []


def test_a_folder_of_ones_own_that_is_not_there_is_named(main, monkeypatch):
    monkeypatch.setenv("SOLFA_SEARCH_PATH", "/nowhere/conf")
    with pytest.raises(ConfigError, match=r"SOLFA_SEARCH_PATH: .*/nowhere/conf"):
        main.compose([OWN, "target=1"])


def test_partitions_come_from_the_team(main, monkeypatch, tmp_path):
    team = tmp_path / "team.yaml"
    team.write_text("default: {partitions: {global: gpu}, slurm_exclude: node7}\n")
    monkeypatch.setenv("SOLFA_CONFIG", str(team))
    slurm = make_main().get_slurm_config()
    assert (slurm.partition, slurm.exclude) == ("gpu", "node7")
    assert main.get_slurm_config().partition is None


def test_settings_are_validated_once_for_one_experiment_and_anew_for_another(main):
    xp = main.compose(["solver=own"])
    assert main.settings(xp) is main.settings(xp)
    other = main.compose(["solver=own", "optim.epochs=7"])
    assert main.settings(other).cfg.optim.epochs == 7 != main.settings(xp).cfg.optim.epochs


def test_a_run_does_not_begin_where_a_link_leads_what_it_writes_elsewhere(main, tmp_path):
    xp = main.compose([OWN])
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("precious")
    folder.mkdir()
    files, folders = [".argv.json", "solver.log.0", "worker_1.log", "output.log"], ["samples", "tensorboard", "wandb"]
    for name in [*files, *folders, "samples/3"]:
        link = xp.folder / name
        link.parent.mkdir(parents=True)
        link.symlink_to(file if name in files else folder)
        with pytest.raises(StoreError, match=f"{link}: .*link"):
            main.start(xp)
        assert link.is_symlink() and file.read_text() == "precious" and not list(folder.iterdir())
        shutil.rmtree(xp.folder)


def test_files_that_are_chosen_and_not_changed_are_composed_as_always(main):
    for argv in ([], ["solver=lm/debug"], ["solver=lm/debug", "dset=bark"]):
        xp = main.compose(argv)
        assert xp.cfg == main.compose_values(argv)
        assert xp.cfg is not main.compose(argv).cfg and xp.cfg is not main.compose_base(argv)[0]
