"""Keys of state-spaces' training script are answered with the key here, and what is answered can be typed."""

import shlex

import pytest

from solfa.errors import ConfigError
from solfa.experiments.compose.state_spaces_names import _HERE, names_here
from solfa.train import main

EXPERIMENT = "experiment=audio/sashimi-dml-musdb18mono"


@pytest.mark.parametrize(
    ("typed", "here"),
    [
        ("loader.batch_size=4", "dataset.batch_size=4"),
        ("dataset.sample_len=8192", "dataset.segment_seconds=0.512"),
        ("dataset.bits=16", "mulaw:bits=16"),
        ("trainer.devices=2", "--ddp-workers 2"),
        ("model.layer.n_ssm=null", "model.tie=per_channel"),
        ("+wandb.name=mine", "logging.wandb={project: NAME, name: mine}"),
    ],
)
def test_an_old_key_is_answered_with_the_one_here(typed: str, here: str) -> None:
    (answer,) = names_here(["seed=1", typed])
    assert answer.startswith(f"{typed}: ") and here in answer


def test_all_answers_are_settings_of_a_run() -> None:
    other = {"trainer.precision": "32-true", "model.layer.d_state": "64", "scheduler.factor": "0.2", "train.ema": "0.9"}
    other |= {key: "some" for key in _HERE if key.endswith(("path", "dir", "ckpt", "group", "name"))}
    answers = [_HERE[key](other.get(key, "1")) for key in _HERE]
    typed = [word for answer in answers for word in shlex.split(answer) if "=" in word]
    given = {text.partition("=")[0]: text for text in typed}  # several old keys have the same answer
    main.settings(main.compose([EXPERIMENT, *given.values()]))
    assert len(given) > 20


def test_the_answer_comes_instead_of_a_list_of_unknown_fields() -> None:
    with pytest.raises(ConfigError, match=r"max_epochs=3: .*optim\.epochs=3; .*model\.dim=32$") as error:
        main.compose([EXPERIMENT, "trainer.max_epochs=3", "model.d_model=32"])
    assert "unknown" not in str(error.value)
