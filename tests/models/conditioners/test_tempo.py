"""The tempo as a clock: found in texts and columns, kept in its range, given to a model with the text."""

from typing import get_args

import pytest
import torch

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.generate.request import with_text
from solfa.models.conditioners.set import ConditionsConfig
from solfa.models.conditioners.tempo import TempoConditioner, TempoConfig, tempo_of
from solfa.models.flow.config import StableAudioOpenConfig
from solfa.models.flow.network import FlowNetwork
from solfa.models.lm.conditioned import build_conditioned_lm
from solfa.models.lm.conditions import Conditions
from solfa.models.lm.generation import GenerationSettings, generate
from solfa.models.lm.network import CodecLM, CodecLMConfig
from solfa.models.lm.weight_layouts import WAYS, Way, WeightLayout, lay_out_weights


def conditioner(**settings: object) -> TempoConditioner:
    return TempoConditioner(parse_config(TempoConfig, {"kind": "tempo", "frame_rate": 75, **settings}, "test"))


@pytest.mark.parametrize(
    ("text", "bpm"),
    [
        ("slow piano, 80 bpm", 80),
        ("92.5BPM house", 92.5),
        ("a piece at 120 beats per minute: drums", 120),
        ("tempo: 70, choir", 70),
        ("bpm 101", 101),
        ("88", 88),
        ("an 808 and 4 bars", None),
        ("80 bpmx", None),
        ("", None),
    ],
)
def test_a_tempo_is_the_number_that_the_text_calls_so(text: str, bpm: float | None) -> None:
    assert tempo_of(text) == bpm


def test_pulses_are_beats_per_step_and_zero_where_no_tempo_is_known() -> None:
    part = conditioner()
    found = part.embed(part.tokenize(["80 bpm", None, "waltz", 120, 62.5, float("nan")]))
    wanted = torch.tensor([80 / 4500, 0, 0, 120 / 4500, 62.5 / 4500, 0])
    torch.testing.assert_close(found.embedding.flatten(), wanted)
    assert found.mask.flatten().tolist() == [True, False, False, True, True, False]
    assert [part.spell(value) for value in ("at 80 bpm", 62.5, None)] == ["80 bpm", "62.5 bpm", ""]


def test_what_was_never_trained_counts_as_the_nearest_and_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    part = conditioner(min=70, max=139)
    for _ in range(2):
        assert part.tokenize(["200 bpm", 60])["parts"].tolist() == [139_000, 70_000]
    assert [record.args for record in caplog.records] == [("caption", 200.0, 139.0), ("caption", 60.0, 70.0)]
    assert part.tokenize([[120], [120], None])["parts"].tolist() == [-1, -1, -1]
    assert caplog.records[-1].args == ("caption", [120]) and len(caplog.records) == 3
    with pytest.raises(ConfigError, match="min below max"):
        conditioner(min=100, max=90)


def test_a_text_is_also_heard_for_its_tempo_unless_that_is_given() -> None:
    kinds = {"description": "learnt_words", "tempo": "tempo"}
    text = "piano, 80 bpm"
    assert with_text({}, text, kinds) == {"description": text, "tempo": text}
    assert with_text({"tempo": 90}, text, kinds) == {"description": text, "tempo": 90}
    with pytest.raises(ConfigError, match="one text condition, found 0"):
        with_text({}, text, {"tempo": "tempo"})


def test_a_language_model_gets_a_clock_at_the_rate_of_its_data() -> None:
    conditions = parse_config(ConditionsConfig, {"conditioners": {"tempo": {"kind": "tempo"}}}, "conditioner")
    config = CodecLMConfig(dim=16, num_layers=1, num_heads=2, ffn_dim=16)
    model = build_conditioned_lm(config, conditions, 2, 8, 75.0)
    tokens = model.conditioners.tokenize([{"tempo": "90 bpm"}, {}])
    assert model.conditioners(tokens).pulses.flatten().tolist() == pytest.approx([90 / 4500, 0])
    inputs = torch.zeros(2, 2, 80, dtype=torch.int64)
    told, untold = model(inputs, tokens)
    assert not torch.equal(told, untold)
    (told.sum() + untold.sum()).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("way", WAYS)
def test_the_clock_stays_exact_where_weights_are_laid_out_for_generating(way: Way) -> None:
    config = CodecLMConfig(
        num_codebooks=2, codebook_size=8, dim=32, num_layers=1, num_heads=1, ffn_dim=32, clock=True, embedding_std=0.5
    )
    told, settings = Conditions(pulses=torch.tensor([[0.02]])), GenerationSettings(temperature=0, top_k=0)
    for layout in get_args(WeightLayout):
        torch.manual_seed(0)
        model = CodecLM(config)
        weight = model.clock.proj.weight.clone()
        lay_out_weights(model, layout, way)
        assert torch.equal(model.clock.proj.weight, weight)
        assert generate(model, told, 6, settings, seeds=[1]).shape == (1, 2, 6)


def test_a_flow_model_has_no_clock() -> None:
    conditions = parse_config(ConditionsConfig, {"conditioners": {"tempo": {"kind": "tempo"}}}, "conditioner")
    with pytest.raises(ConfigError, match=r"tempo.*flow model.*kind number"):
        FlowNetwork(StableAudioOpenConfig.model_construct(), conditions, 4)
