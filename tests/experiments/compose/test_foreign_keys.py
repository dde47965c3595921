"""A key of another program is answered with what to type here, and only where nothing here has that name."""

import pytest

from solfa.errors import ConfigError
from solfa.experiments.compose.foreign_keys import answer_keys, renamed
from solfa.train import main


def test_known_keys_are_answered_in_the_order_in_which_they_were_typed() -> None:
    known = {"lr": renamed("optim.lr"), "gpu": lambda value: f"device={'cuda' if value == '1' else 'cpu'}"}
    answers = answer_keys(known, ["+gpu=1", "other=2", "lr=a=b"])
    assert answers == ["+gpu=1: here it is device=cuda", "lr=a=b: here it is optim.lr=a=b"]


def test_the_setting_of_the_adapter_scripts_is_found_in_its_place() -> None:
    with pytest.raises(ConfigError, match=r"^use_pre_encoded=true: .* dset\.train\.use_pre_encoded=true$"):
        main.compose(["solver=lm/debug", "use_pre_encoded=true"])
    main.compose(["solver=lm/debug", "dset.train.use_pre_encoded=true"])
