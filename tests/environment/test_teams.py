"""Teams and clusters: variables, files and the machine say where we are."""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from solfa.environment.clusters import ClusterConfig
from solfa.environment.teams import CONF, Environment, load_environment, read_team
from solfa.errors import ConfigError

LABS = """
default:
  dora_dir: /scratch/{user}/xps
  hosts: []
jeanzay:
  dora_dir: /scratch/${oc.env:USER}/solfa
  reference_dir: $STORE/reference
  partitions: {global: gpu, team: [a100, h100]}
  slurm_exclude: [node01, node07]
  dataset_mappers: {"^/datasets/(\\\\w+)": "/fast/\\\\1", "^/fast/old": "/fast/new"}
  hosts: "*.idris.fr"
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A conf folder with the teams `default` and `labs`."""
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams/default.yaml").write_text("default:\ndarwin: {dora_dir: ~/mac}\n")
    (tmp_path / "teams/labs.yaml").write_text(LABS)
    return tmp_path


def load(conf: Path | None = None, system: str = "Linux", hostname: str = "here", **environ: str) -> Environment:
    return load_environment(environ, conf, system=system, hostname=hostname)


@pytest.mark.parametrize(
    ("system", "environ", "expected"),
    [
        ("Linux", {"HOME": "/home/ada"}, "/home/ada/.local/share/solfa"),
        ("Darwin", {"HOME": "/Users/ada"}, "/Users/ada/Library/Application Support/solfa"),
        ("Linux", {"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}, "/data/solfa"),
        ("Linux", {"HOME": "/home/ada", "XDG_DATA_HOME": "relative"}, "/home/ada/.local/share/solfa"),
    ],
)
def test_experiments_are_kept_in_the_data_directory_of_the_user(system, environ, expected):
    found = load(system=system, **environ)
    assert found.team == "default" and found.cluster == ("darwin" if system == "Darwin" else "default")
    assert found.dora_dir == Path(expected) and found.xps_dir == Path(expected) / "xps"
    assert found.reference_dir is None and found.partition("team") is None and found.slurm_exclude is None


def test_it_works_without_user_and_home(conf):
    assert load().dora_dir.is_absolute()
    dora_dir = load(conf, SOLFA_TEAM="labs").dora_dir
    assert dora_dir.parts[:2] == ("/", "scratch") and len(dora_dir.parts) == 4 and "{" not in str(dora_dir)


def test_a_team_is_read_for_the_cluster_that_the_host_belongs_to(conf):
    found = load(conf, hostname="login3.IDRIS.fr", SOLFA_TEAM="labs", USER="ada", STORE="/store")
    assert found.cluster == "jeanzay"
    assert found.dora_dir == Path("/scratch/ada/solfa") and found.reference_dir == Path("/store/reference")
    assert found.slurm_exclude == "node01,node07"
    assert (found.partition(), found.partition("team"), found.partition("team", "global")) == (
        "gpu",
        "a100,h100",
        "a100,h100,gpu",
    )
    with pytest.raises(ConfigError, match=r"partition 'teem': .*'global', 'team' .*did you mean 'team'\?"):
        found.partition("teem")


def test_variables_win_over_the_file(conf):
    found = load(
        conf, SOLFA_TEAM="labs", SOLFA_CLUSTER="jeanzay", SOLFA_DORA_DIR="/d/$USER", USER="ada", STORE="/store"
    )
    assert found.dora_dir == Path("/d/ada") and found.reference_dir == Path("/store/reference")
    found = load(conf, SOLFA_REFERENCE_DIR="refs", SOLFA_DORA_DIR="~/here", HOME="/home/ada")
    assert found.reference_dir == Path.cwd() / "refs" and found.dora_dir == Path("/home/ada/here")


def test_names_of_audiocraft_are_understood_and_lose_against_ours(conf, caplog):
    theirs = {
        "AUDIOCRAFT_TEAM": "labs",
        "AUDIOCRAFT_CLUSTER": "jeanzay",
        "AUDIOCRAFT_DORA_DIR": "/theirs",
        "AUDIOCRAFT_REFERENCE_DIR": "/refs",
    }
    found = load(conf, **theirs)
    assert (found.team, found.cluster, found.dora_dir) == ("labs", "jeanzay", Path("/theirs"))
    assert found.reference_dir == Path("/refs") and caplog.records == []
    with caplog.at_level(logging.WARNING):
        found = load(conf, **theirs, SOLFA_DORA_DIR="/ours", SOLFA_TEAM="labs")
    assert found.dora_dir == Path("/ours")
    (said,) = [record.getMessage() for record in caplog.records]
    assert re.search("SOLFA_DORA_DIR=/ours.*AUDIOCRAFT_DORA_DIR=/theirs.*ignored", said)
    assert load(conf, **theirs, SOLFA_DORA_DIR="").dora_dir == Path("/theirs"), "an empty variable counts as unset"


def test_a_file_of_ones_own_is_a_team(tmp_path):
    own = tmp_path / "mine.yaml"
    own.write_text("default: {dora_dir: /d}\n")
    found = load(SOLFA_CONFIG=str(own))
    assert (found.team, found.team_file, found.dora_dir) == ("mine", own, Path("/d"))
    assert load(AUDIOCRAFT_CONFIG=str(own), SOLFA_TEAM="us").team == "us"
    with pytest.raises(ConfigError, match=r"SOLFA_CONFIG: .*none\.yaml"):
        load(SOLFA_CONFIG=str(tmp_path / "none.yaml"))


def test_a_job_that_gets_the_variables_finds_itself_in_the_same_place(conf):
    here = load(conf, hostname="login.idris.fr", SOLFA_TEAM="labs", USER="ada", STORE="/store")
    there = load(hostname="node17", USER="ada", STORE="/store", **here.variables())
    assert there == here


def test_unknown_teams_and_clusters_are_answered_with_those_that_exist(conf):
    with pytest.raises(ConfigError, match=r"team 'lab': .*'default', 'labs'.*did you mean 'labs'\?"):
        load(conf, SOLFA_TEAM="lab")
    with pytest.raises(ConfigError, match=r"team 'xyz': .*'default', 'labs'.*SOLFA_TEAM .* SOLFA_CONFIG"):
        load(conf, SOLFA_TEAM="xyz")
    with pytest.raises(ConfigError, match=r"cluster 'jeanzai': .*'default', 'jeanzay'.*did you mean 'jeanzay'\?"):
        load(conf, SOLFA_TEAM="labs", SOLFA_CLUSTER="jeanzai")
    (conf / "teams/labs.yaml").write_text("a: {}\nb: {}\n")
    with pytest.raises(ConfigError, match=r"cluster: .*'a', 'b'.*SOLFA_CLUSTER"):
        load(conf, SOLFA_TEAM="labs")


def test_a_team_is_found_by_name_on_the_search_path_before_those_that_are_shipped(conf, tmp_path):
    own = tmp_path / "own"
    (own / "teams").mkdir(parents=True)
    (own / "teams/ours.yaml").write_text("default: {dora_dir: /ours}\n")
    path = os.pathsep.join([str(tmp_path / "nowhere"), str(own)])
    found = load(conf, SOLFA_TEAM="ours", SOLFA_SEARCH_PATH=path)
    assert (found.team_file, found.dora_dir) == (own / "teams/ours.yaml", Path("/ours"))
    assert load(conf, AUDIOCRAFT_TEAM="labs", SOLFA_SEARCH_PATH=path).team_file == conf / "teams/labs.yaml"
    (own / "teams/default.yaml").write_text("default: {dora_dir: /default}\n")
    assert load(conf, SOLFA_SEARCH_PATH=path).dora_dir == Path("/default")
    with pytest.raises(ConfigError, match=r"team 'our': .*'default', 'labs', 'ours'.*did you mean 'ours'\?"):
        load(conf, SOLFA_TEAM="our", SOLFA_SEARCH_PATH=path)


def test_a_team_is_a_name_and_not_a_path(conf):
    (conf / "secret.yaml").write_text("default: {}\n")
    with pytest.raises(ConfigError, match=r"team '\.\./secret'"):
        load(conf, SOLFA_TEAM="../secret")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("default: {dora_dri: /x}", r"default: dora_dri: .*did you mean 'dora_dir'\?"),
        ("default: {dora_dir: 3}", "default: dora_dir: .*found 3"),
        ("default: {dataset_mappers: {'(': x}}", "default: dataset_mappers: expected a regular expression"),
        ("default: {dataset_mappers: {'a': '\\2'}}", "default: dataset_mappers: expected a regular expression"),
        ("dora_dir: /x", "expected .*cluster.*found 'dora_dir': '/x'"),
        ("- a", r"expected .*cluster.*found \['a'\]"),
        ("", "expected .*cluster.*found None"),
        ("a: [", "expected YAML, found"),
    ],
)
def test_a_faulty_file_gets_one_sentence_that_names_it(text, words, tmp_path):
    path = tmp_path / "team.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words) as fault:
        read_team(path)
    assert str(fault.value).startswith(f"{path}: ") and "\n" not in str(fault.value)


def test_a_variable_that_is_not_set_is_named_with_its_place(conf):
    with pytest.raises(ConfigError, match=r"labs\.yaml: jeanzay\.reference_dir: .*\bSTORE\b"):
        load(conf, SOLFA_TEAM="labs", SOLFA_CLUSTER="jeanzay")


def test_every_team_that_is_shipped_is_valid():
    paths = sorted((CONF / "teams").glob("*.yaml"))
    assert "default" in [path.stem for path in paths]
    for path in paths:
        assert all(isinstance(cluster, ClusterConfig) for cluster in read_team(path).values())


def test_nothing_heavy_is_imported():
    code = (
        "import sys, solfa.xp.paths, os; from solfa.environment.teams import load_environment\n"
        "load_environment(os.environ)\n"
        "print(sorted({'torch', 'numpy', 'hydra', 'omegaconf', 'dora'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
