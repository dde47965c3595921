"""What can be said about drawing has one list that type checkers read, and it is that of the models."""

from typing import Unpack, get_type_hints

import pytest

from solfa.errors import ConfigError
from solfa.generate.model import Model
from solfa.generate.options import DrawOptions, with_options
from solfa.generate.waveforms import WaveformChoices
from solfa.models.flow.generation import FlowSampling
from solfa.models.lm.candidates import CandidateSettings


def test_the_options_are_the_fields_of_what_models_draw_with() -> None:
    fields = CandidateSettings.model_fields | WaveformChoices.model_fields | FlowSampling.model_fields
    assert get_type_hints(DrawOptions) == {name: field.annotation for name, field in fields.items()}
    for method in (Model.generate, Model.draw):
        assert get_type_hints(method)["options"] == Unpack[DrawOptions]


def test_an_option_replaces_what_the_experiment_says() -> None:
    changed = with_options(CandidateSettings(temperature=0.5, top_k=3), {"top_k": 9})
    assert (changed.temperature, changed.top_k) == (0.5, 9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temprature": 1.0}, "^`temprature`: unknown.*did you mean 'temperature'"),
        ({"top_p": 2}, "^`top_p`: .*found 2"),
        ({"top_p": 2, "top_k": -1}, "`top_k`: .*`top_p`: "),
    ],
)
def test_a_wrong_option_is_named_as_a_parameter(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        with_options(CandidateSettings(), options)
