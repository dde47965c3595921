"""All conditioners together: fusing, absence, checkpoints, and the configs that are shipped."""

import io
from importlib.resources import files
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from omegaconf import OmegaConf

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.conditioners.set import ConditionerSet, ConditionsConfig, attended

ROWS = [
    {"description": "a loud drum", "genre": "rock", "mood": ["dark"], "bpm": 120, "seconds": 3.5, "beat": 90},
    {"description": "drum", "genre": None, "mood": ["dark", "loud"], "bpm": None},
    {},
]


def everything(t5: Path) -> ConditionsConfig:
    conditioners = {
        "description": {"kind": "text", "encoder": str(t5)},
        "genre": {"kind": "labels", "source": "genre", "fuse": "cross"},
        "mood": {"kind": "labels", "source": "mood", "vocabulary": ["dark", "loud"]},
        "bpm": {"kind": "number", "source": "bpm", "min": 40, "max": 200, "dropout": 0.2},
        "seconds": {"kind": "number", "source": "seconds", "min": 0, "max": 30, "features": {"kind": "linear"}},
        "beat": {"kind": "tempo", "source": "bpm", "frame_rate": 50},
    }
    return parse_config(ConditionsConfig, {"conditioners": conditioners, "guidance_dropout": 0.1}, "conditioner")


@pytest.fixture
def conditioners(t5) -> ConditionerSet:
    torch.manual_seed(0)
    found = ConditionerSet(everything(t5), 8)
    assert found.to_fit == ("genre",)
    found.fit({"genre": ["rock", "jazz", None]})
    return found


def test_conditions_are_fused_as_the_config_says(conditioners):
    tokens = conditioners.tokenize(ROWS)
    conditions = conditioners(tokens)
    parts = {name: conditioners.conditioners[name].embed(tokens[name]).embedding for name in tokens}
    assert torch.equal(conditions.cross, torch.cat([parts["description"], parts["genre"]], dim=1))
    assert torch.equal(conditions.prepended, parts["mood"])
    assert torch.equal(conditions.summed, parts["bpm"] + parts["seconds"])
    assert torch.equal(conditions.pulses, parts["beat"][..., 0])
    assert conditions.cross.shape == (3, 5, 8)


def test_cross_mask_hides_padding_and_absent_attributes_but_never_a_whole_row(conditioners):
    conditions = conditioners(conditioners.tokenize(ROWS))
    assert conditions.cross_mask.int().tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 1, 1, 1, 1]]
    assert conditions.cross[~conditions.cross_mask].eq(0).all()
    assert conditions.cross[2].eq(0).all()
    assert attended(torch.tensor([[False, True], [False, False]])).tolist() == [[False, True], [True, True]]


def test_attention_sees_absent_rows_as_exactly_zero_and_is_the_same_in_every_batch(conditioners):
    """Batched equals single: attending to a row gives the same whatever it is padded to."""
    queries = torch.randn(3, 1, 4, 8, generator=torch.Generator().manual_seed(0))

    def attend(rows: list, queries: torch.Tensor) -> torch.Tensor:
        conditions = conditioners(conditioners.tokenize(rows))
        keys, mask = conditions.cross[:, None], conditions.cross_mask[:, None, None]
        return F.scaled_dot_product_attention(queries, keys, keys, attn_mask=mask)

    together = attend(ROWS, queries)
    assert together[2].eq(0).all()
    for row in range(3):
        assert torch.allclose(together[row], attend([ROWS[row]], queries[row : row + 1])[0], atol=1e-6)


def test_null_is_zero_everywhere(conditioners):
    null = conditioners.null(4)
    for part in (null.cross, null.prepended, null.summed, null.pulses):
        assert part.shape[0] == 4
        assert part.eq(0).all()
    assert null.cross_mask.all()


def test_checkpoint_restores_everything_learnt_and_nothing_frozen(conditioners, t5):
    conditioners(conditioners.tokenize(ROWS))
    content = io.BytesIO()
    torch.save(conditioners.state_dict(), content)
    content.seek(0)
    state = torch.load(content, weights_only=True)
    assert not [name for name in state if "encoder" in name]
    restored = ConditionerSet(everything(t5), 8)
    restored.load_state_dict(state)
    tokens = restored.tokenize(ROWS)
    for one, other in zip(restored(tokens), conditioners(tokens), strict=True):
        assert torch.equal(one, other)


def test_everything_learnt_gets_gradients_even_from_an_empty_batch(conditioners):
    for rows in (ROWS, [{}], []):
        conditioners.zero_grad(set_to_none=True)
        conditions = conditioners(conditioners.tokenize(rows))
        (conditions.cross.sum() + conditions.prepended.sum() + conditions.summed.sum()).backward()
        assert all(parameter.grad is not None for parameter in conditioners.parameters())


def test_moves_as_a_module_before_and_after_it_is_fitted(t5):
    for fit_first in (True, False):
        conditioners = ConditionerSet(everything(t5), 8)
        if fit_first:
            conditioners.fit({"genre": ["rock"]})
        conditioners.to("meta")
        if not fit_first:
            conditioners.fit({"genre": ["rock"]})
        assert {parameter.device.type for parameter in conditioners.parameters()} == {"meta"}


def test_unknown_attribute_is_answered_with_the_nearest(conditioners):
    with pytest.raises(ConfigError, match=r"'genr'.*did you mean 'genre'"):
        conditioners.tokenize([{"genr": "rock"}])
    with pytest.raises(ConfigError, match=r"conditioner genre: .*training data"):
        conditioners.fit({})


def test_no_conditioners_are_no_conditions():
    conditioners = ConditionerSet(ConditionsConfig(), 8)
    assert conditioners(conditioners.tokenize([{}, {}])).is_none
    assert not list(conditioners.parameters())


def test_config_knows_sources_dropouts_and_whether_it_needs_cross_attention(t5):
    config = everything(t5)
    assert config.sources["description"] == "caption"
    assert config.sources["seconds"] == "seconds"
    assert config.dropouts == {"description": 0.0, "genre": 0.0, "mood": 0.0, "bpm": 0.2, "seconds": 0.0, "beat": 0.0}
    assert config.uses_cross_attention
    assert not ConditionsConfig().uses_cross_attention


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"guidance_dropout": 0.1}, "guidance_dropout .*set it to 0"),
        ({"conditioners": {"type": {"kind": "labels", "source": "type"}}}, "'type' cannot"),
        ({"conditioners": {"a.b": {"kind": "labels", "source": "b"}}}, r"'a\.b' cannot"),
        ({"conditioners": {"a": {"kind": "text", "encodr": "t5"}}}, "did you mean 'encoder'"),
        ({"conditioners": {"a": {"kind": "chroma"}}}, "'learnt_words' or 'labels' or 'number' or 'tempo' or 'key'"),
    ],
)
def test_wrong_configs_are_one_sentence(values, sentence):
    with pytest.raises(ConfigError, match=sentence):
        parse_config(ConditionsConfig, values, "conditioner")


@pytest.mark.parametrize("name", ["none", "text", "text_own", "text_tempo_key", "labels", "numbers"])
def test_shipped_configs_are_valid(name):
    content = OmegaConf.create((files("solfa") / f"conf/conditioner/{name}.yaml").read_text())
    config = parse_config(ConditionsConfig, OmegaConf.to_container(content), name)
    assert bool(config.conditioners) == (name != "none")


def test_a_tempo_or_key_that_is_none_is_reported_unless_it_is_the_text(caplog):
    kinds = {"description": {"kind": "learnt_words"}, "tempo": {"kind": "tempo"}, "key": {"kind": "key"}}
    conditioners = ConditionerSet(parse_config(ConditionsConfig, {"conditioners": kinds}, "test").at_rate(50.0), 16)
    conditioners.fit({"description": ["slow piano"]})
    conditioners.checked(
        [
            {"description": "slow piano", "tempo": "slow piano", "key": "slow piano"},
            {"description": "slow piano", "tempo": 96, "key": "A minor"},
            {"tempo": None},
        ]
    )
    assert not caplog.records
    for _ in range(2):
        conditioners.checked([{"description": "slow piano", "tempo": "fast", "key": "H"}] * 2)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and "no tempo in 'fast'" in said[0] and "no key in 'H'" in said[1]
