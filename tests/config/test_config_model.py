"""A wrong setting is answered with one sentence that says where, what and what to do."""

import re
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError, model_validator

from solfa.config import Config, nearest, parse_config
from solfa.errors import ConfigError, SolfaError


class Inner(Config):
    num_codebooks: int = Field(default=4, ge=1)


class Mean(Config):
    kind: Literal["mean"] = "mean"


class Largest(Config):
    kind: Literal["largest", "last"] = "largest"


Pool = Annotated[Mean | Largest, Field(discriminator="kind")]


class Outer(Config):
    name: str
    kind: Literal["codes", "latents"] = "codes"
    codec: Inner = Inner()
    pool: Pool = Mean()
    pools: dict[str, Pool] = Field(default_factory=dict)
    low: int = 0
    high: int = 9

    @model_validator(mode="after")
    def _ordered(self) -> "Outer":
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self


def sentence(values: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as fault:
        parse_config(Outer, values, "settings.yaml")
    assert "\n" not in str(fault.value)
    return str(fault.value)


def test_good_values_are_parsed() -> None:
    config = parse_config(Outer, {"name": "a", "codec": {"num_codebooks": 8}}, "here")
    assert (config.name, config.codec.num_codebooks) == ("a", 8)


def test_an_unknown_field_gets_a_suggestion() -> None:
    assert sentence({"name": "a", "knd": "codes"}) == "settings.yaml: knd: unknown field, did you mean 'kind'?"
    assert sentence({"name": "a", "zzz": 1}) == "settings.yaml: zzz: unknown field"


def test_an_unknown_field_inside_another_gets_the_suggestion_of_its_own_model() -> None:
    expected = "settings.yaml: codec.num_codeboks: unknown field, did you mean 'num_codebooks'?"
    assert sentence({"name": "a", "codec": {"num_codeboks": 8}}) == expected


def test_a_missing_field_is_named() -> None:
    assert sentence({}) == "settings.yaml: name: missing"


def test_a_bad_value_says_what_was_expected_and_found() -> None:
    found = sentence({"name": "a", "kind": "tokens"})
    assert re.fullmatch(r"settings\.yaml: kind: .*'codes' or 'latents', found 'tokens'", found)
    found = sentence({"name": "a", "codec": {"num_codebooks": 0}})
    assert re.search(r"codec\.num_codebooks: .*greater than or equal to 1, found 0", found)


def test_a_variant_that_does_not_exist_is_answered_with_those_that_do() -> None:
    known = "expected 'mean' or 'largest' or 'last'"
    assert sentence({"name": "a", "pool": {"kind": "larges"}}) == (
        f"settings.yaml: pool.kind: {known}, found 'larges', did you mean 'largest'?"
    )
    assert sentence({"name": "a", "pools": {"first": {"kind": "sum"}}}) == (
        f"settings.yaml: pools.first.kind: {known}, found 'sum'"
    )
    assert sentence({"name": "a", "pool": {}}) == "settings.yaml: pool.kind: missing"
    assert sentence({"name": "a", "pool": {"kind": "last", "kid": 1}}) == (
        "settings.yaml: pool.last.kid: unknown field, did you mean 'kind'?"
    )


def test_a_rule_between_fields_is_said_in_its_own_words() -> None:
    assert sentence({"name": "a", "low": 5, "high": 1}) == "settings.yaml: low must not be above high"


def test_several_faults_are_listed_together() -> None:
    found = sentence({"kind": "x", "hgh": 2})
    assert all(part in found for part in ("name: missing", "kind: ", "did you mean 'high'?"))


def test_a_config_is_frozen() -> None:
    config = parse_config(Outer, {"name": "a"}, "here")
    with pytest.raises(ValidationError, match="frozen"):
        config.name = "b"  # type: ignore[misc]


def test_errors_are_of_the_family_that_the_command_line_shows() -> None:
    assert issubclass(ConfigError, SolfaError)
    assert issubclass(ConfigError, ValueError)


def test_nearest_suggests_only_what_is_close() -> None:
    assert nearest("encodec_32kz", ["encodec_24khz", "encodec_32khz"]) == ", did you mean 'encodec_32khz'?"
    assert nearest("mimi", ["dac", "encodec"]) == ""
    assert nearest("x", []) == ""


def test_a_word_where_a_kind_has_settings_is_answered_with_the_key_to_set() -> None:
    with pytest.raises(ConfigError, match=r"^it: pool: .*'largest'.* set pool\.kind$"):
        parse_config(Outer, {"name": "a", "pool": "largest"}, "it")
