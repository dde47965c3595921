"""What a config says, and what it refuses."""

from typing import Any

import pytest

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.mot.config import MoTConfig, OneVocabulary

BASE = {"base": "//tiny"}


def test_kinds_are_named_and_hold_their_own_settings() -> None:
    config = parse_config(
        MoTConfig,
        {**BASE, "layout": {"kind": "flat", "ids": "shared"}, "attention": {"kind": "copy"}, "ffn": {"kind": "lora"}},
        "model",
    )
    assert (
        config.layout == OneVocabulary(ids="shared") and config.attention.kind == "copy" and config.ffn.kind == "lora"
    )
    assert MoTConfig.model_validate({**BASE, "layout": {"kind": "flat"}}).layout == OneVocabulary(ids="offset")


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"layout": {"kind": "coarse_first"}}, "'parallel' or 'delay' or 'flat', found 'coarse_first'"),
        ({"layout": {"kind": "flat", "ids": "own"}}, "shared"),
        ({"attention": {"kind": "full"}}, "'shared' or 'copy' or 'lora', found 'full'"),
        ({"attention": {"kind": "copy", "rank": 3}}, "rank: "),
        ({"ffn": {"kind": "bridge", "width": 0}}, "width"),
        ({"base_dtype": "int8"}, "base_dtype"),
        ({"train_donor": True}, "train_donor: .*found none"),
        ({"prefix_graph": True, "checkpoint_layers": True}, "checkpoint_layers: .*prefix_graph"),
        ({"codebook_size": 0}, "codebook_size"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        parse_config(MoTConfig, {**BASE, **settings}, "model")


def test_a_base_is_needed() -> None:
    with pytest.raises(ConfigError, match="base: "):
        parse_config(MoTConfig, {}, "model")
