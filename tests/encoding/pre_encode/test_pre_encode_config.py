"""Settings: the defaults people know, and the sentences they read when something does not fit."""

import pytest

from solfa.encoding.pre_encode.config import PreEncodeConfig, check_launch, parse_pre_encode
from solfa.environment.ranks import Rank
from solfa.errors import ConfigError

USUAL = {"pretrained_name": "mulaw", "dataset_config": "data.json", "output_path": "out"}


def test_defaults_are_those_of_the_script():
    assert parse_pre_encode(USUAL).as_args() == {
        "model_config": None,
        "ckpt_path": None,
        "pretrained_name": "mulaw",
        "dataset_config": "data.json",
        "output_path": "out",
        "batch_size": 1,
        "sample_size": 1320960,
        "num_workers": 4,
        "shuffle": False,
        "model_half": False,
        "is_discrete": False,
        "num_nodes": 1,
        "strategy": "auto",
        "limit_batches": None,
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_config": "m.json", "pretrained_name": None}, "found model_config without ckpt_path"),
        ({"ckpt_path": "m.ckpt"}, "found ckpt_path without model_config"),
        ({"model_config": "m.json", "ckpt_path": "m.ckpt"}, "pretrained_name.*found both"),
        ({"pretrained_name": None}, "pretrained_name.*found neither"),
        ({"sample_size": 999}, "sample_size: .*1000.*, found 999"),
        ({"sample_size": 44100 * 300 + 1}, "sample_size: .*13230000"),
        ({"batch_size": 0}, "batch_size: .*found 0"),
        ({"batch_size": 10_001}, "batch_size: "),
        ({"num_workers": -1}, "num_workers: .*found -1"),
        ({"num_nodes": 0}, "num_nodes: "),
        ({"limit_batches": 0}, "limit_batches: "),
        ({"strategy": "fsdp"}, "strategy: .*auto.*ddp.*, found 'fsdp'"),
        ({"batchsize": 2}, "did you mean 'batch_size'"),
        ({"model_confg": "m.json"}, "did you mean 'model_config'"),
        ({"dataset_config": None}, "dataset_config: "),
    ],
)
def test_what_does_not_fit_is_answered_with_a_sentence(changes, words):
    with pytest.raises(ConfigError, match=words):
        parse_pre_encode({**USUAL, **changes})


def test_bounds_themselves_are_allowed_and_nothing_can_be_changed_later():
    for size in (1_000, 44_100 * 300):
        assert parse_pre_encode({**USUAL, "sample_size": size}).sample_size == size
    for strategy in ("auto", "ddp", "ddp_find_unused_parameters_true"):
        config = parse_pre_encode({**USUAL, "strategy": strategy})
    with pytest.raises(ValueError, match="frozen"):
        config.batch_size = 2
    with pytest.raises(ValueError, match="extra"):
        PreEncodeConfig(**USUAL, unknown=1)


def test_several_nodes_need_a_launcher():
    config = parse_pre_encode({**USUAL, "num_nodes": 2})
    with pytest.raises(
        ConfigError, match=r"found WORLD_SIZE 1\b.*srun --nodes 2 .*torchrun --nnodes 2 .*--no-python solfa"
    ):
        check_launch(config, Rank())
    check_launch(config, Rank(rank=1, world_size=2))
