"""Another kind by one override, although the file tells of the old one."""

from typing import Annotated, Literal

from pydantic import Field

from solfa.config import Config
from solfa.experiments.compose.union_kinds import leave_out_other_kinds


class Cosine(Config):
    kind: Literal["cosine"] = "cosine"
    warmup: int = 0


class Constant(Config):
    kind: Literal["constant"] = "constant"
    scale: float = 1.0


class Optim(Config):
    schedule: Annotated[Cosine | Constant, Field(discriminator="kind")] = Cosine()
    epochs: int = 1


class Whole(Config):
    optim: Optim | None = None


def test_what_only_the_other_kind_has_is_left_out():
    values = {"optim": {"epochs": 2, "schedule": {"kind": "constant", "warmup": 5, "scale": 2.0}}}
    kept = leave_out_other_kinds(Whole, values, given=["optim.schedule.kind"])
    assert kept == {"optim": {"epochs": 2, "schedule": {"kind": "constant", "scale": 2.0}}}


def test_what_was_typed_or_is_known_to_no_kind_is_left_to_be_refused():
    values = {"optim": {"schedule": {"kind": "constant", "warmup": 5, "warmpu": 1}}}
    assert leave_out_other_kinds(Whole, values, given=["optim.schedule.warmup"]) == values


def test_nothing_is_touched_where_the_kind_is_unknown_or_there_is_none():
    for values in ({"optim": {"schedule": {"kind": "csoine", "warmup": 1}}}, {"optim": None}, {"optim": {"x": {}}}):
        assert leave_out_other_kinds(Whole, values, given=[]) == values
