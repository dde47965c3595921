"""Names and places of a user, with and without the variables that usually say them."""

import os
from pathlib import Path

import pytest

from solfa.environment.person import data_directory, expand_text, home_directory, user_name
from solfa.errors import ConfigError

ADA = {"USER": "ada", "HOME": "/home/ada", "EMPTY": "", "ROOT": "/data"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("/x/{user}/y", "/x/ada/y"),
        ("/x/$USER/y", "/x/ada/y"),
        ("/x/${USER}_y", "/x/ada_y"),
        ("/x/${oc.env:USER}", "/x/ada"),
        ("${oc.env:NOWHERE,/fallback}/x", "/fallback/x"),
        ("${oc.env:EMPTY, d}", "d"),
        ("$ROOT$USER", "/dataada"),
        ("~/x", "/home/ada/x"),
        ("~", "/home/ada"),
        ("/x/~y", "/x/~y"),
        ("~bob/x", "~bob/x"),
        (r"/data/\1", r"/data/\1"),
    ],
)
def test_texts_are_filled_in(text, expanded):
    assert expand_text(text, ADA, "here") == expanded


def test_a_variable_that_is_not_set_is_an_error():
    with pytest.raises(ConfigError, match=r"team\.yaml: '/x/\$NOPE' .*\bNOPE\b.*not set"):
        expand_text("/x/$NOPE", ADA, "team.yaml")


def test_the_system_is_asked_where_variables_are_silent():
    assert user_name({"LOGNAME": "ada"}) == "ada"
    assert user_name({}) and expand_text("{user}", {}, "") == user_name({})
    assert home_directory({}).is_absolute()


def test_a_user_whom_the_system_does_not_know_has_a_name_but_no_home(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    assert user_name({}) == "uid3999999999"
    with pytest.raises(ConfigError, match=r"HOME .*SOLFA_DORA_DIR"):
        home_directory({})
    assert data_directory({"XDG_DATA_HOME": "/data"}, "Linux") == Path("/data/solfa"), "no home is needed"
