"""Paths of a configuration become paths of this machine."""

from pathlib import Path

import pytest

from solfa.environment.teams import Environment
from solfa.errors import ConfigError
from solfa.xp.paths import map_dataset_path, resolve_path, resolve_paths, with_whole_signatures


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "refs").mkdir()
    return Environment(
        team="labs",
        team_file=Path("labs.yaml"),
        cluster="here",
        dora_dir=tmp_path / "dora",
        reference_dir=tmp_path / "refs",
        partitions={},
        slurm_exclude=None,
        dataset_mappers={r"^/datasets/(\w+)": r"/fast/\1", "^/fast/old": "/fast/new"},
    )


def test_references_are_found_in_the_reference_folder(environment, tmp_path):
    assert resolve_path("//reference/x/y.pt", environment) == str(tmp_path / "refs/x/y.pt")
    assert resolve_path("//reference", environment) == str(tmp_path / "refs")
    assert resolve_path("//reference/", environment) == str(tmp_path / "refs")


def test_without_a_reference_folder_the_error_says_how_to_set_one(environment, tmp_path):
    without = Environment(**{**environment.__dict__, "reference_dir": None})
    with pytest.raises(ConfigError, match=r"//reference/x: .*SOLFA_REFERENCE_DIR.*reference_dir in labs\.yaml"):
        resolve_path("//reference/x", without)
    gone = Environment(**{**environment.__dict__, "reference_dir": tmp_path / "gone"})
    with pytest.raises(ConfigError, match=r"//reference/x: .*/gone "):
        resolve_path("//reference/x", gone)


def test_signatures_become_folders_with_what_follows_them(environment, make_experiment):
    folder = make_experiment("9521b0af")
    assert resolve_path("//sig/9521b0af", environment) == str(folder)
    assert resolve_path("//sig/9521b0af/", environment) == str(folder)
    assert resolve_path("//sig/9521b0af/best.pt", environment) == str(folder / "best.pt")
    assert resolve_path("//sig/9521b0af:num_codebooks=4", environment) == f"{folder}:num_codebooks=4"
    assert resolve_path("//sig/95/best.pt", environment) == str(folder / "best.pt")


def test_the_beginning_of_a_signature_becomes_all_of_it(environment, make_experiment):
    make_experiment("9521b0af")
    texts = [
        "continue_from=//sig/95",
        "codec=//sig/9521b0af:bits=4",
        "x=[//sig/952/best.pt,//sig/zz]",
        "a=//reference/b",
    ]
    assert [with_whole_signatures(text, environment) for text in texts] == [
        "continue_from=//sig/9521b0af",
        "codec=//sig/9521b0af:bits=4",
        "x=[//sig/9521b0af/best.pt,//sig/zz]",
        "a=//reference/b",
    ]


def test_unknown_signatures_are_answered_with_near_ones(environment, make_experiment):
    with pytest.raises(ConfigError, match=r"//sig/9521b0aa: .*no experiments.*SOLFA_DORA_DIR"):
        resolve_path("//sig/9521b0aa/best.pt", environment)
    make_experiment("9521b0af")
    make_experiment("c0ffee12")
    with pytest.raises(ConfigError, match=r"//sig/9521b0aa: no such experiment.*did you mean 9521b0af\?$"):
        resolve_path("//sig/9521b0aa", environment)
    with pytest.raises(ConfigError, match=r"latest.*c0ffee12"):
        resolve_path("//sig/zzzz", environment)
    make_experiment("9521b0bb")
    with pytest.raises(ConfigError, match=r"//sig/9521: 2 experiments.*9521b0"):
        resolve_path("//sig/9521/best.pt", environment)
    for text in ("//sig", "//sig/", "//sig/..", "//sig/../xps"):
        with pytest.raises(ConfigError, match="signature"):
            resolve_path(text, environment)


@pytest.mark.parametrize(
    "text", ["//demo", "//demo/x", "//pretrained/facebook/x", "audio/", "/data//x", "mulaw", "", "//srv/data", "a ~ b"]
)
def test_other_texts_are_left_alone(text, environment):
    assert resolve_path(text, environment) == text


def test_a_slip_after_the_slashes_is_answered_with_what_was_meant(environment):
    with pytest.raises(ConfigError, match=r"//refrence/x: .*did you mean 'reference'"):
        resolve_path("//refrence/x", environment)


def test_home_is_expanded(environment, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert resolve_path("~/x", environment) == "/home/ada/x"
    with pytest.raises(ConfigError, match="nobody-of-this-name"):
        resolve_path("~nobody-of-this-name/x", environment)


def test_mappers_apply_one_after_the_other(environment):
    assert map_dataset_path("/datasets/music/a.solfa", environment) == "/fast/music/a.solfa"
    assert map_dataset_path("/datasets/old/a.solfa", environment) == "/fast/new/a.solfa"
    assert map_dataset_path("/elsewhere/datasets/music", environment) == "/elsewhere/datasets/music"


def test_a_configuration_is_resolved_at_every_depth(environment, make_experiment, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    folder = make_experiment("9521b0af")
    values = {
        "continue_from": "//sig/9521b0af",
        "codec": "//sig/9521b0af:bits=4",
        "log": "~/logs",
        "path": "/datasets/music",
        "optim": {"lr": 1e-4, "texts": ["//reference/a.txt", "plain ~/text", None, True]},
        "dset": {
            "train": [{"path": "/datasets/old/x", "codec": "mulaw", "weight": 2}, {"path": "~/b"}],
            "valid": {"path": "//reference/datasets/v"},
            "name": "datasets",
        },
    }
    assert resolve_paths(values, environment) == {
        "continue_from": str(folder),
        "codec": f"{folder}:bits=4",
        "log": "/home/ada/logs",
        "path": "/datasets/music",
        "optim": {"lr": 1e-4, "texts": [str(tmp_path / "refs/a.txt"), "plain ~/text", None, True]},
        "dset": {
            "train": [{"path": "/fast/new/x", "codec": "mulaw", "weight": 2}, {"path": "/home/ada/b"}],
            "valid": {"path": str(tmp_path / "refs/datasets/v")},
            "name": "datasets",
        },
    }
    assert values["dset"]["train"][0]["path"] == "/datasets/old/x", "what was given is not changed"


def test_a_fault_names_the_key(environment):
    with pytest.raises(ConfigError, match=r"^dset\.train\.1\.path: //sig/abc: "):
        resolve_paths({"dset": {"train": [{"path": "x"}, {"path": "//sig/abc"}]}}, environment)
