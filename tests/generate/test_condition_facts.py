"""What a model can be told is read from its folder."""

from pathlib import Path

import pytest

from solfa.generate.condition_facts import ConditionFacts, described_conditions
from solfa.models.conditioners.set import ConditionsConfig
from solfa.models.lm.conditioned import build_conditioned_lm
from solfa.models.lm.network import CodecLMConfig
from solfa.xp.state_file import write_state

PARTS = {
    "genre": {"kind": "labels", "source": "genre"},
    "bpm": {"kind": "number", "source": "bpm", "min": 40, "max": 220},
}


@pytest.mark.parametrize("file", ["best.pt", "checkpoint.pt"])
def test_labels_that_were_learnt_are_read_from_the_weights(file: str, tmp_path: Path) -> None:
    conditions = ConditionsConfig.model_validate({"conditioners": PARTS})
    model = CodecLMConfig(dim=16, num_layers=1, num_heads=2, ffn_dim=16)
    network = build_conditioned_lm(
        model, conditions, 2, 8, 50.0, {"genre": ["rock", ["jazz", "rock"], None]}.__getitem__
    )
    config = {"conditioner": conditions.model_dump(mode="json")}
    assert described_conditions(config, tmp_path)[0] == ConditionFacts("genre", "labels", labels=None)
    write_state(tmp_path / file, {"states": {"model": network.state_dict()}})
    assert described_conditions(config, tmp_path) == [
        ConditionFacts("genre", "labels", labels=("jazz", "rock")),
        ConditionFacts("bpm", "number", range=(40, 220)),
    ]
    (tmp_path / file).write_bytes(b"damaged")
    assert described_conditions(config, tmp_path)[0].labels is None


def test_a_text_is_what_the_flag_stands_for_only_if_there_is_one(tmp_path: Path) -> None:
    text = {"kind": "text", "encoder": "t5"}
    for names in (["mood"], ["mood", "place"]):
        config = {"conditioner": {"conditioners": dict.fromkeys(names, text)}}
        assert [found.is_only_text for found in described_conditions(config, tmp_path)] == [len(names) == 1] * len(
            names
        )
    timed = {"conditioner": {"conditioners": {"mood": text, "tempo": {"kind": "tempo", "min": 70, "max": 139}}}}
    assert described_conditions(timed, tmp_path) == [
        ConditionFacts("mood", "text", is_only_text=True),
        ConditionFacts("tempo", "number", range=(70, 139)),
    ]
    assert described_conditions({"text": {"source": "caption"}}, tmp_path) == [
        ConditionFacts("text", "text", is_only_text=True)
    ]
    assert described_conditions({"solver": "sashimi"}, tmp_path) == []
