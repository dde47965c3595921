"""AudioCraft's files and keys are answered with those here, and what is answered can be typed."""

import re
import shlex

import pytest

from solfa.errors import ConfigError
from solfa.experiments.compose.audiocraft_names import _CHOICES, _KEYS, choice_here, keys_here
from solfa.train import main

TYPED = re.compile(r"(?<![\w.])\w+=[\w/]+(?=$|[ ;,])")


@pytest.mark.parametrize(
    ("group", "name", "here"),
    [
        ("solver", "musicgen/debug", "solver=lm/debug"),
        ("solver", "musicgen/musicgen_base_32khz", "solver=lm/base conditioner=text"),
        ("solver", "musicgen/musicgen_melody_32khz", "no melody"),
        ("solver", "audiogen/debug", "solver=lm/debug"),
        ("solver", "default", "solver=lm/base"),
        ("solver", "compression/encodec_base_24khz", "model=codec/encodec_24khz"),
        ("solver", "magnet/magnet_32khz", "no masked models"),
        ("solver", "diffusion/default", "solver=flow/base"),
        ("solver", "watermark/default", "not a task"),
        ("model", "watermark/default", "not a model"),
        ("model", "score/basic", "solver=flow/base"),
        ("model", "lm/model_scale/medium", "model=lm/medium"),
        ("model", "lm/model_scale/xsmall", "model=lm/tiny"),
        ("conditioner", "chroma2music", "no melody"),
        ("dset", "audio/example", "dset=audio/default"),
        ("model", "lm/musicgen_lm", "model=lm/small"),
    ],
)
def test_a_file_of_audiocraft_is_answered_with_the_one_here(group: str, name: str, here: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{group}={name}: ") as error:
        main.compose([f"{group}={name}"])
    assert here in str(error.value) and "did you mean" not in str(error.value)


def test_every_file_that_is_named_exists() -> None:
    answers = {here for choices in _CHOICES.values() for here in choices.values()}
    named = [text for here in answers for text in TYPED.findall(here)]
    assert len(named) > 10
    for text in named:
        group, _, choice = text.partition("=")
        assert choice in main._groups[group], text


@pytest.mark.parametrize(
    ("group", "typed", "told"),
    [
        ("solver", "lm/debgu", "did you mean 'lm/debug'"),
        ("model", "lm/larg", "did you mean 'lm/large'"),
        ("model", "large", "did you mean 'lm/large'"),
        ("solver", "mot/small", "did you mean 'mot/base' or 'mot/debug'"),
        ("solver", "compression/debgu", "did you mean 'compression/debug'"),
    ],
)
def test_what_is_ours_is_suggested_by_task_and_purpose_and_letters(group: str, typed: str, told: str) -> None:
    assert choice_here(group, "mine") == ""
    with pytest.raises(ConfigError, match=told):
        main.compose([f"{group}={typed}"])


@pytest.mark.parametrize(
    ("typed", "here"),
    [
        ("optim.lr=1e-3", "optim.optimizer.lr=1e-3"),
        ("codebooks_pattern.modeling=unroll", "model.pattern.kind=flat"),
        ("model/lm/model_scale=medium", "model=lm/medium"),
        ("autocast=false", "precision=32-true"),
        ("transformer_lm.n_q=4", "codec"),
    ],
)
def test_a_key_of_audiocraft_is_answered_with_the_one_here(typed: str, here: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{re.escape(typed)}: .*{re.escape(here)}") as error:
        main.compose(["solver=lm/debug", typed])
    assert "unknown" not in str(error.value)


def test_all_answers_are_settings_of_a_run() -> None:
    values = {
        "autocast": "true",
        "classifier_free_guidance.training_dropout": "0.1",
        "codebooks_pattern.delay.delays": "[0,1,2,3]",
        "codebooks_pattern.modeling": "delay",
        "fsdp.use": "true",
        "generate.lm.prompt_duration": "0.1",
        "logging.log_tensorboard": "false",
        "model/lm/model_scale": "xsmall",
        "optim.adam.betas": "[0.9,0.95]",
        "schedule.cosine.lr_min_ratio": "0.5",
        "schedule.lr_scheduler": "cosine",
        "transformer_lm.dim": "64",
        "transformer_lm.dropout": "0.1",
    }
    typed = [word for key in _KEYS for word in shlex.split(_KEYS[key](values.get(key, "1"))) if "=" in word]
    left_out = ("model.ffn_dim", "dset.")  # with a number to work out, with data that is not there
    given = {text.partition("=")[0]: text for text in typed if not text.startswith(left_out)}
    main.settings(main.compose(["solver=lm/debug", "conditioner=text_small", *given.values()]))
    assert len(given) > 20


def test_no_old_key_is_a_key_here() -> None:
    assert keys_here(["optim.epochs=3", "dataset.batch_size=4", "generate.every=2"]) == []
