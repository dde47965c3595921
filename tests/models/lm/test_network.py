"""The codec language model: causal, equal with and without a cache, with gradients through every path."""

import math
from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor

import solfa
from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.lm.conditions import Conditions
from solfa.models.lm.network import CodecLM, CodecLMConfig, cross_entropy, inputs_and_targets
from solfa.nn.positions import Rope, Sinusoidal
from solfa.ops.patterns import Delay, Flat, Parallel

K, V, D = 3, 11, 16
SPECIAL = V
POSITIONS = [Sinusoidal(), Rope()]


def make_model(**changes: object) -> CodecLM:
    settings = {"num_codebooks": K, "codebook_size": V, "dim": D, "num_layers": 2, "num_heads": 2, "ffn_dim": 32}
    model = CodecLM(
        CodecLMConfig.model_validate({**settings, "cross_attention": True, "clock": True, **changes})
    ).eval()
    for parameter in model.parameters():
        # Larger than at the start of training, so that every path shows in the logits.
        torch.nn.init.normal_(parameter, std=0.4)
    return model


def make_conditions(batch: int = 2) -> Conditions:
    return Conditions(
        cross=torch.randn(batch, 5, D),
        cross_mask=torch.arange(5) < torch.tensor([[5], [2]])[:batch],
        prepended=torch.randn(batch, 3, D),
        summed=torch.randn(batch, 1, D),
        pulses=torch.tensor([[0.13], [0.31]])[:batch],
    )


def make_tokens(num_steps: int, batch: int = 2) -> Tensor:
    return torch.randint(0, V + 1, (batch, K, num_steps))


@pytest.mark.parametrize("positions", POSITIONS, ids=lambda p: p.kind)
@pytest.mark.parametrize("conditions", [Conditions.none(), None], ids=["alone", "conditioned"])
def test_any_pieces_through_a_cache_equal_the_full_forward(positions: object, conditions: Conditions | None) -> None:
    model, tokens = make_model(positions=positions), make_tokens(17)
    conditions = make_conditions() if conditions is None else conditions
    full = model(tokens, conditions)
    for pieces in ([1] * 17, [17], [3, 1, 1, 7, 5], torch.randint(1, 4, (17,)).tolist()):
        cache = model.new_cache(2, max_steps=17 + 3)
        logits, start = [], 0
        for size in pieces:
            if start < 17:
                logits.append(model(tokens[..., start : start + size], conditions, cache))
            start += size
        assert torch.allclose(torch.cat(logits, dim=2), full, atol=1e-5)
        assert cache.position == 17 + (0 if conditions.prepended is None else 3)


@pytest.mark.parametrize("positions", POSITIONS, ids=lambda p: p.kind)
def test_a_step_changes_its_own_logits_and_later_ones_only(positions: object) -> None:
    model, tokens, conditions = make_model(positions=positions), make_tokens(9), make_conditions()
    before = model(tokens, conditions)
    for step in range(9):
        changed = tokens.clone()
        changed[:, :, step] = (changed[:, :, step] + 1) % (V + 1)
        after = model(changed, conditions)
        assert torch.equal(after[:, :, :step], before[:, :, :step])
        assert ((after - before).abs().amax(dim=(1, 3))[:, step:] > 1e-5).all()


def test_the_order_of_steps_matters_to_both_kinds_of_positions() -> None:
    tokens = make_tokens(6)
    swapped = tokens[..., [1, 0, 2, 3, 4, 5]]
    for positions in POSITIONS:
        model = make_model(positions=positions)
        last = [model(t, Conditions.none())[:, :, -1] for t in (tokens, swapped)]
        assert not torch.allclose(last[0], last[1], atol=1e-4)


def test_every_condition_reaches_every_step() -> None:
    model, tokens, conditions = make_model(), make_tokens(4), make_conditions()
    before = model(tokens, conditions)
    for name in ("cross", "prepended", "summed"):
        part = getattr(conditions, name)
        changed = conditions._replace(**{name: part + torch.randn_like(part)})
        assert ((model(tokens, changed) - before).abs().amax(dim=(1, 3)) > 1e-4).all(), name


def test_conditions_in_float32_serve_a_model_in_another_precision() -> None:
    model, tokens, conditions = make_model(), make_tokens(4), make_conditions()
    exact = model(tokens, conditions)
    doubled = model.double()(tokens, conditions)
    assert doubled.dtype == torch.float64 and torch.allclose(doubled.float(), exact, atol=1e-4)
    cached = model(tokens, conditions, model.new_cache(2, 7))
    assert cached.dtype == torch.float64 and torch.allclose(cached, doubled, atol=1e-9)


def test_clips_of_a_batch_do_not_see_each_other() -> None:
    model, tokens, conditions = make_model(), make_tokens(5), make_conditions()
    alone = model(tokens[:1], Conditions(*(None if part is None else part[:1] for part in conditions)))
    assert torch.allclose(model(tokens, conditions)[:1], alone, atol=1e-5)


def test_gradients_reach_the_first_step_from_the_last_and_every_parameter_twice_in_a_row() -> None:
    model, conditions = make_model().train(), make_conditions()
    for _ in range(2):
        model.zero_grad()
        codes = torch.randint(0, V, (2, K, 6))
        batch = inputs_and_targets(codes, torch.ones(2, 6, dtype=torch.bool), Delay().layout(K, 6), SPECIAL)
        cross_entropy(model(batch.inputs, conditions), batch.targets, batch.mask).sum().backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_the_last_step_has_a_gradient_to_the_embedding_of_the_first() -> None:
    model = make_model().train()
    tokens = torch.zeros(1, K, 6, dtype=torch.long)
    tokens[:, :, 0] = SPECIAL
    model(tokens, Conditions.none())[:, :, -1].square().sum().backward()
    for table in model.embeddings:
        assert table.weight.grad is not None
        assert table.weight.grad[SPECIAL].abs().sum() > 0, "it stands at the first step only"
        assert table.weight.grad[1:SPECIAL].abs().sum() == 0


def test_heads_are_stacked_codebook_after_codebook() -> None:
    model, tokens = make_model(), make_tokens(4)
    hidden, logits = model.hidden(tokens, Conditions.none()), model(tokens, Conditions.none())
    for k in range(K):
        expected = hidden @ model.heads.weight[k * V : (k + 1) * V].T
        assert torch.allclose(logits[:, k], expected, atol=1e-5)


def test_embeddings_start_as_large_as_they_should_and_nothing_else_changes() -> None:
    settings = {"num_codebooks": 2, "codebook_size": 64, "dim": 64, "num_layers": 1, "num_heads": 4, "ffn_dim": 256}
    states = []
    for std in (0.02, 0.3):
        torch.manual_seed(0)
        states.append(CodecLM(CodecLMConfig.model_validate({**settings, "clock": True, "embedding_std": std})))
    for (name, small), large in zip(states[0].named_parameters(), states[1].parameters(), strict=True):
        factor = 15.0 if name.startswith(("embeddings", "clock")) else 1.0
        torch.testing.assert_close(large, factor * small)


def test_weights_start_small_and_norms_as_identities() -> None:
    model = CodecLM(CodecLMConfig(num_codebooks=2, codebook_size=64, dim=64, num_layers=1, num_heads=4, ffn_dim=256))
    for name, parameter in model.named_parameters():
        if "norm" in name:
            assert (parameter == (1 if name.endswith("weight") else 0)).all()
        else:
            assert 0.019 < parameter.std() < 0.021 and abs(parameter.mean()) < 0.002
    logits = model(torch.randint(0, 65, (2, 2, 8)), Conditions.none())
    loss = cross_entropy(logits, torch.zeros(2, 2, 8, dtype=torch.long), torch.ones(2, 2, 8, dtype=torch.bool))
    assert abs(loss.mean() / 16 - math.log(64)) < 0.3


@pytest.mark.parametrize("pattern", [Delay(), Flat(), Parallel()], ids=lambda p: p.kind)
def test_inputs_are_the_targets_one_step_later(pattern: Delay | Flat | Parallel) -> None:
    codes, mask = torch.randint(0, V, (2, K, 5)), torch.ones(2, 5, dtype=torch.bool)
    layout = pattern.layout(K, 5)
    inputs, targets, real = inputs_and_targets(codes, mask, layout, SPECIAL)
    assert (inputs[..., 0] == SPECIAL).all() and torch.equal(inputs[..., 1:], targets[..., :-1])
    assert torch.equal(real, (layout >= 0).expand(2, -1, -1)) and (targets[~real] == SPECIAL).all()
    assert (targets[real] < V).all()


def test_a_padded_clip_gives_the_logits_and_the_loss_of_the_clip_alone() -> None:
    model = make_model()
    codes = torch.randint(0, V, (1, K, 4))
    padded = torch.cat([codes, torch.randint(0, V, (1, K, 3))], dim=2)
    alone = inputs_and_targets(codes, torch.ones(1, 4, dtype=torch.bool), Delay().layout(K, 4), SPECIAL)
    longer = inputs_and_targets(padded, (torch.arange(7) < 4)[None], Delay().layout(K, 7), SPECIAL)
    losses = [cross_entropy(model(b.inputs, Conditions.none()), b.targets, b.mask) for b in (alone, longer)]
    assert torch.allclose(losses[0], losses[1], atol=1e-4)
    assert torch.equal(longer.inputs[..., :6], alone.inputs)


def test_cross_entropy_sums_the_nats_of_each_codebook_where_unmasked() -> None:
    logits, targets = torch.randn(2, K, 4, V), torch.randint(0, V, (2, K, 4))
    mask = torch.rand(2, K, 4) < 0.6
    targets = targets.masked_fill(~mask, SPECIAL)
    expected = torch.zeros(K)
    for b in range(2):
        for k in range(K):
            for s in range(4):
                if mask[b, k, s]:
                    row = logits[b, k, s].double().exp()
                    expected[k] -= (row[targets[b, k, s]] / row.sum()).log().float()
    assert torch.allclose(cross_entropy(logits, targets, mask), expected, atol=1e-4)
    halved = cross_entropy(logits.bfloat16(), targets, mask)
    assert halved.dtype == torch.float32 and torch.allclose(halved, expected, rtol=0.05)


def test_a_dataset_fills_in_the_sizes_or_contradicts_them() -> None:
    config = CodecLMConfig(dim=16, num_layers=1, num_heads=2, ffn_dim=16)
    with pytest.raises(ConfigError, match=r"num_codebooks.*codebook_size.*None.*None"):
        CodecLM(config)
    sized = config.sized(4, 1024)
    assert sized.codes_shape == (4, 1024) and sized.special == 1024 and sized.cross_attention is False
    assert sized.sized(4, 1024) == sized
    assert config.sized(4, 1024, cross_attention=True).cross_attention is True
    with pytest.raises(ConfigError, match=r"model\.codebook_size: .*2048, found 1024"):
        sized.sized(4, 2048)
    with pytest.raises(ConfigError, match=r"model\.num_codebooks: .*8, found 4"):
        sized.sized(8, 1024)
    with pytest.raises(ConfigError, match=r"model\.cross_attention: .*fuse=cross.*found false"):
        sized.sized(4, 1024, cross_attention=True)


def test_a_condition_to_attend_needs_cross_attention() -> None:
    model = make_model(cross_attention=False)
    with pytest.raises(ConfigError, match=r"cross-attention.*set cross_attention"):
        model(make_tokens(3), make_conditions())


def test_a_tempo_needs_a_clock_and_a_step_for_every_frame() -> None:
    with pytest.raises(ConfigError, match=r"tempo.*no clock"):
        make_model(clock=False)(make_tokens(3), make_conditions())
    config = CodecLMConfig(dim=16, num_layers=1, num_heads=2, ffn_dim=16)
    assert config.sized(4, 8, clock=True).clock is True and config.sized(4, 8).clock is False
    with pytest.raises(ConfigError, match=r"model\.clock: .*found false"):
        config.model_copy(update={"clock": False}).sized(4, 8, clock=True)
    with pytest.raises(ConfigError, match=r"model\.pattern: .*found flat"):
        config.model_copy(update={"pattern": Flat()}).sized(4, 8, clock=True)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"num_heads": 3}, "dim .*num_heads, found 16 and 3"),
        ({"num_heads": 16, "positions": {"kind": "rope"}}, "dim / num_heads .*rope, found 1"),
        ({"positions": {"kind": "learned"}}, "sinusoidal.*rope"),
        ({"dropout": 1.0}, "dropout"),
        ({"num_layer": 3}, "num_layer: .*did you mean 'num_layers'"),
    ],
)
def test_a_config_that_cannot_be_built_is_refused(changes: dict[str, object], fault: str) -> None:
    settings = {"dim": 16, "num_layers": 1, "num_heads": 2, "ffn_dim": 16}
    with pytest.raises(ConfigError, match=fault):
        parse_config(CodecLMConfig, {**settings, **changes}, "model")


@pytest.mark.parametrize(
    ("size", "numbers"),
    [("debug", (2, 64)), ("small", (24, 1024, 16)), ("medium", (48, 1536, 24)), ("large", (48, 2048, 32))],
)
def test_the_sizes_that_are_shipped_are_valid(size: str, numbers: tuple[int, ...]) -> None:
    path = Path(solfa.__file__).parent / "conf" / "model" / "lm" / f"{size}.yaml"
    text = path.read_text()
    config = parse_config(CodecLMConfig, yaml.safe_load(text), str(path))
    assert (config.num_layers, config.dim, config.num_heads)[: len(numbers)] == numbers
    assert config.ffn_dim == 4 * config.dim and isinstance(config.pattern, Delay)
    assert text.startswith("# @package model\n"), "without it Hydra would put the fields under model.lm"
