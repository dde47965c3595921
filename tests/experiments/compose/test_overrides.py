"""What is typed behind `solfa train`: what is accepted, and the sentence for what is not."""

import re

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString

from solfa.errors import ConfigError
from solfa.experiments.compose.overrides import (
    as_overrides,
    as_typed,
    check_overrides,
    find_groups,
    parse_override,
    same_name_elsewhere,
    unknown_keys,
)

GROUPS = {"solver": ["lm/base", "lm/debug"], "experiment": ["small"]}


def test_groups_are_found_in_several_folders_and_at_every_level(tmp_path):
    for name in ("a/solver/lm/base.yaml", "a/config.yaml", "a/teams/default.yaml", "b/solver/own.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = find_groups([tmp_path / "a", tmp_path / "b"])
    assert found == {"solver": ["lm/base", "own"], "solver/lm": ["base"]}


@pytest.mark.parametrize(
    "texts",
    [
        ["solver=lm/debug", "optim.epochs=3", "+new.key=[1,2]"],
        ["value=null", "text='a, b: ~c'"],
        ["experiment=[small]", "value={a: 1, b: null}"],
        [],
    ],
)
def test_what_hydra_can_do_is_accepted(texts):
    check_overrides(texts, GROUPS)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("solver=lm/debgu", r"lm/base, lm/debug, found 'lm/debgu', did you mean 'lm/debug'\?"),
        ("solver=null", "lm/base, lm/debug, found null; leave it out"),
        ("experiment=[smal]", r"found 'smal', did you mean 'small'\?"),
        ("~optim.ema", r"signature.*set optim\.ema=null"),
        ("optim.epochs=1,2", "write a grid"),
        ("epochs", "expected KEY=VALUE"),
        ("--multirun", "expected KEY=VALUE"),
        ("dora.dir=/tmp", "set SOLFA_DORA_DIR"),
        ("slurm.gpus=8", r"launcher\.slurm_"),
        ("hydra/launcher=basic", "Hydra's own"),
    ],
)
def test_what_cannot_be_part_of_an_experiment_is_answered_with_one_sentence(text, told):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}: .*{told}") as error:
        check_overrides(["optim.epochs=3", text], GROUPS)
    assert "\n" not in str(error.value)


def test_values_of_variables_are_shown_as_they_were_typed():
    texts = ["a=${oc.env:TOKEN}/x", "b=${ oc.env:SHORT,1}", "c=${oc.env:EMPTY}"]
    variables = {"TOKEN": "secret123", "SHORT": "3", "EMPTY": "", "OTHER": "other text"}
    told = as_typed("a: secret123/x: not 'secret123'; 3 of '3' and other text", texts, variables)
    assert told == "a: ${oc.env:TOKEN}/x: not '${oc.env:TOKEN}'; 3 of '${oc.env:SHORT}' and other text"
    assert as_typed("secret123", ["a=1"], variables) == "secret123"


def test_overrides_that_replace_nothing_are_told_from_those_that_do():
    base = {"optim": {"epochs": 3, "ema": None}, "seed": 0}
    known = ["optim.epochs=1", "+new=1", "++other=2", "solver=lm/base"]
    unknown = ["optim.epohcs=1", "seed.deep=1", "optim.ema.decay=1"]
    assert unknown_keys([*known, *unknown], base, GROUPS) == unknown


def test_a_key_without_its_group_is_found_by_its_name():
    base = {"optim": {"epochs": 3, "schedule": {"epochs": 2}}, "seed": 0}
    assert same_name_elsewhere(["epochs=4"], base) == ["optim.epochs", "optim.schedule.epochs"]
    assert same_name_elsewhere(["nothing=4"], base) == []


@pytest.mark.parametrize(
    "value",
    [
        *(3, -1e-4, True, None, [1, ["x", None]], [{"a": {"b": "y z"}}], {}),
        *("null", "True", "1", "", "//sig/1", "NaN", "a, b: ~c", 'so "he" said\\', "é\\", "it's"),
    ],
)
def test_a_python_value_is_written_so_that_hydra_reads_the_same_value(value):
    (text,) = as_overrides({"key": value})
    check_overrides([text], GROUPS)
    read = OverridesParser.create().parse_override(text).value()
    assert unquoted(read) == value


def unquoted(value):
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [unquoted(item) for item in value]
    return {key: unquoted(item) for key, item in value.items()} if isinstance(value, dict) else value


def test_a_mapping_is_one_override_for_each_key_in_it():
    written = [*as_overrides({"solver": "lm/debug", "optim": {"epochs": 1, "schedule": {"kind": "cosine"}}})]
    assert written == ["solver=lm/debug", "optim.epochs=1", "optim.schedule.kind=cosine"]


@pytest.mark.parametrize("text", ["music.solfa/", "s3://bucket/audio", "."])
def test_a_dataset_alone_is_answered_with_the_key_it_belongs_to(text):
    with pytest.raises(ConfigError, match=f"dset.train={text}") as raised:
        parse_override(text)
    assert "quote" not in str(raised.value)


def test_a_value_that_needs_quotes_is_answered_with_them():
    with pytest.raises(ConfigError, match=r"quote the value: 'dset.train.codec=\"mulaw:sample_rate=4000\"'"):
        parse_override("dset.train.codec=mulaw:sample_rate=4000")
    assert parse_override('dset.train.codec="mulaw:sample_rate=4000"').value() == "mulaw:sample_rate=4000"
    with pytest.raises(ConfigError) as fault:
        parse_override("no value at all")
    assert "quote" not in str(fault.value)
