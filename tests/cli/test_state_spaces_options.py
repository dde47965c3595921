"""Options of state-spaces' generate script get the command to type, whose flags exist."""

import re
import shlex

import pytest

from solfa.cli.state_spaces_options import _FLAGS, refuse_key_values
from solfa.errors import ConfigError
from tests.cli.conftest import SolfaMain

OWN = ["--temperature", "--seconds", "--num", "--out", "--top-p", "--seed", "--prompt-seconds", "--reject-lowest"]


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("5e4ad262 temp=0.8 l_sample=16000 n_samples=10", "5e4ad262 --temperature 0.8 --seconds 1 --num 10"),
        ("5e4ad262 seconds=2 reject_lowest=0.4", "5e4ad262 --seconds 2 --reject-lowest 0.4"),
        (
            "experiment=audio/sashimi-sc09 checkpoint_path=a/b.pt n_samples=8 n_reps=4 l_prefix=8000 load_data=false",
            "a/b.pt --num 32 --prompt FILE --prompt-seconds 0.5",
        ),
        ("experiment=audio/sashimi-dml-musdb18mono top_p=1.0 l_prefix=0 save_dir=clips", "SIG --out clips"),
    ],
)
def test_the_whole_command_is_answered(typed: str, command: str) -> None:
    with pytest.raises(ConfigError, match=f"; type: solfa generate {re.escape(command)}$"):
        refuse_key_values(shlex.split(typed), OWN)


def test_what_is_no_option_of_anybody_is_named() -> None:
    with pytest.raises(ConfigError, match=r"tmp=1: .*flags.*did you mean 'temp'"):
        refuse_key_values(["5e4ad262", "tmp=1"], OWN)
    with pytest.raises(ConfigError, match=r"other: .*one model, found 5e4ad262"):
        refuse_key_values(["5e4ad262", "other"], OWN)
    refuse_key_values(["5e4ad262"], OWN)


def test_the_command_says_it_before_it_looks_for_the_model(solfa_main: SolfaMain) -> None:
    code, output = solfa_main("generate", "experiment=audio/sashimi-dml-musdb18mono", "temp=0.8", "n_samples=3")
    assert code == 2 and "--temperature 0.8 --num 3" in output
    help_code, shown = solfa_main("generate", "--help")
    assert help_code == 0 and set(re.findall(r"--[a-z-]+", shown)) >= {*_FLAGS.values(), "--prompt", "--sort"}
