"""Audio that attends to a text: equal with and without a cache, causal, blind to padding, at first the base's own."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models.lm.generation import CodesModel
from solfa.models.mot.network import MoT
from solfa.models.mot.prefix import TextPrefix, join_texts
from tests.models.mot.tiny_mot import (
    KINDS,
    LAYOUTS,
    TEXTS,
    K,
    V,
    doubled,
    gradients,
    ids_of,
    make_codes,
    make_mot,
    make_tokens,
    name_of,
    prefix_of,
    step_loss,
    their_model,
    write_base,
)

each_kind = pytest.mark.parametrize("kinds", KINDS, ids=name_of)
WITH_EMPTY = ([1, 70, 71, 72], [], [1, 81])
EMPTY: tuple[list[int], ...] = ([], [], [])


def of_kinds(base: Path, kinds: tuple[Any, Any], donor: Path | None = None, **settings: Any) -> MoT:
    return make_mot(base, donor, attention=kinds[0], ffn=kinds[1], **settings)


def speaking_text(model: MoT) -> MoT:
    """Let code v of the only codebook be embedded as the base embeds token v."""
    with torch.no_grad():
        model.vocabulary.tables.tables[0].weight.copy_(model.base.model.model.embed_tokens.weight[: V + 1])
    return model


@pytest.mark.parametrize("base_name", ["base", "biased_base"])
@pytest.mark.parametrize("kinds", [*KINDS[1:], (KINDS[0][0], KINDS[1][1])], ids=name_of)
def test_experts_that_start_as_the_base_continue_a_text_as_the_base_does(
    kinds: tuple[Any, Any], base_name: str, request: pytest.FixtureRequest
) -> None:
    directory = request.getfixturevalue(base_name)
    settings = {"num_codebooks": 1, "layout": {"kind": "parallel"}, "shaken": False}
    model = speaking_text(of_kinds(directory, kinds, **settings))
    tokens = torch.randint(0, V + 1, (3, 1, 70))
    found = model.hidden(tokens, prefix_of(model))
    theirs = their_model(directory).model
    for row, text in enumerate(TEXTS):
        whole = torch.cat([torch.tensor(text), tokens[row, 0]])[None]
        with torch.no_grad():
            expected = theirs(whole).last_hidden_state[0, len(text) :]
        assert torch.allclose(found[row], expected, atol=1e-4)


def test_positions_of_audio_are_rotated_with_the_scaling_of_the_base(base: Path, tmp_path: Path) -> None:
    unscaled = write_base(tmp_path / "unscaled", rope_parameters={"rope_type": "default", "rope_theta": 10_000.0})
    tokens, hidden = make_tokens(70), []
    for directory in (base, unscaled):
        model = make_mot(directory)
        hidden.append(model.hidden(tokens, prefix_of(model, EMPTY)))
    assert torch.allclose(hidden[0][:, 0], hidden[1][:, 0], atol=1e-5), "the first step has nothing to turn"
    assert (hidden[0][:, -1] - hidden[1][:, -1]).abs().amax(dim=1).gt(1e-2).all()


def test_audio_is_as_far_from_a_text_as_the_text_is_long(base: Path) -> None:
    model, tokens = make_mot(base), make_tokens(3, batch=1)
    prefix = prefix_of(model, [TEXTS[0]])
    further = TextPrefix(prefix.keys, prefix.values, prefix.lengths + 4)
    assert not torch.allclose(model.hidden(tokens, prefix), model.hidden(tokens, further), atol=1e-3)


@each_kind
@pytest.mark.parametrize("texts", [TEXTS, WITH_EMPTY, EMPTY], ids=["texts", "some empty", "all empty"])
def test_any_pieces_through_a_cache_equal_one_call(
    kinds: tuple[Any, Any], texts: tuple[list[int], ...], base: Path
) -> None:
    model, tokens = doubled(of_kinds(base, kinds)), make_tokens(9)
    prefix = prefix_of(model, texts)
    with torch.no_grad():
        whole = model.hidden(tokens, prefix)
        for pieces in ([1] * 9, [9], [4, 1, 1, 3]):
            cache = model.new_cache(3, 9 + prefix.num_steps)
            parts = [model.hidden(part, prefix, cache) for part in tokens.split(pieces, dim=2)]
            assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-10)
            assert cache.position == 9 + prefix.num_steps


def test_a_cache_counts_the_text(base: Path) -> None:
    model = make_mot(base)
    cache = model.new_cache(3, 9)
    with torch.no_grad(), pytest.raises(ConfigError, match="at most 9 steps, found 10"):
        model.hidden(make_tokens(5), prefix_of(model), cache)


@pytest.mark.parametrize("texts", [TEXTS, WITH_EMPTY], ids=["texts", "some empty"])
def test_rows_of_a_batch_are_what_each_is_alone(texts: tuple[list[int], ...], base: Path) -> None:
    model, tokens = doubled(make_mot(base)), make_tokens(6)
    together = model.hidden(tokens, prefix_of(model, texts))
    for row, text in enumerate(texts):
        alone = model.hidden(tokens[row : row + 1], prefix_of(model, [text]))
        assert torch.allclose(together[row], alone[0], atol=1e-10)


def test_the_text_reaches_every_step_and_every_token_of_it_counts(base: Path) -> None:
    model, tokens = make_mot(base), make_tokens(6, batch=1)
    before = model.hidden(tokens, prefix_of(model, [TEXTS[0]]))
    for place in range(5):
        text = [*TEXTS[0]]
        text[place] += 1
        after = model.hidden(tokens, prefix_of(model, [text]))
        assert (after - before).abs().amax(dim=2).gt(1e-4).all(), place


@pytest.mark.parametrize("texts", [TEXTS, EMPTY], ids=["texts", "empty"])
def test_a_step_changes_itself_and_later_ones_only(texts: tuple[list[int], ...], base: Path) -> None:
    model, tokens = make_mot(base), make_tokens(6)
    prefix = prefix_of(model, texts)
    before = model.hidden(tokens, prefix)
    for step in range(6):
        changed = tokens.clone()
        changed[:, :, step] = (changed[:, :, step] + 1) % (V + 1)
        after = model.hidden(changed, prefix)
        assert torch.equal(after[:, :step], before[:, :step])
        assert (after - before).abs().amax(dim=2)[:, step:].gt(1e-5).all()


def test_what_stands_in_the_padding_of_a_text_makes_no_difference(base: Path) -> None:
    model, tokens = make_mot(base), make_tokens(5)
    prefix = prefix_of(model)
    padding = prefix.mask
    assert padding is not None
    outside = (~padding)[None, :, None, :, None]
    noisy = TextPrefix(prefix.keys + 1e3 * outside, prefix.values - 1e3 * outside, prefix.lengths)
    assert torch.equal(model.hidden(tokens, noisy), model.hidden(tokens, prefix))


@pytest.mark.parametrize("room", [0, 4])
def test_right_padding_of_captions_makes_no_difference(room: int, base: Path) -> None:
    model, (codes, mask) = doubled(make_mot(base)), make_codes()
    expected = model(codes, mask, ids_of())
    assert torch.allclose(model(codes, mask, ids_of(room=room, padding=77)), expected, atol=1e-10)
    for row, text in enumerate(TEXTS):
        alone = model(codes[row : row + 1], mask[row : row + 1], ids_of([text]))
        assert torch.allclose(alone[0], expected[row], atol=1e-10)


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
def test_padded_frames_make_no_difference(layout: dict[str, Any], base: Path) -> None:
    model, (codes, mask) = doubled(make_mot(base, layout=layout)), make_codes(4)
    prefix = prefix_of(model)
    alone = model(codes, mask, prefix)
    longer = torch.cat([codes, torch.randint(0, V, (3, K, 3))], dim=2)
    others = torch.cat([codes, torch.randint(0, V, (3, K, 3))], dim=2)
    real = (torch.arange(7) < 4).expand(3, -1)
    found = [model(padded, real, prefix)[:, :, :4] for padded in (longer, others)]
    assert torch.equal(found[0], found[1]) and torch.allclose(found[0], alone, atol=1e-10)


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
@pytest.mark.parametrize("num_frames", [1, 3])
def test_the_logits_of_a_code_see_exactly_what_is_laid_out_before_it(
    layout: dict[str, Any], num_frames: int, base: Path
) -> None:
    model, (codes, mask) = make_mot(base, layout=layout), make_codes(num_frames, batch=1)
    prefix = prefix_of(model, TEXTS[:1])
    laid = model.layout(num_frames)
    step = {(k, int(t)): s for k in range(K) for s, t in enumerate(laid[k]) if t >= 0}
    before = model(codes, mask, prefix)
    for k, t in step:
        changed = codes.clone()
        changed[0, k, t] = (changed[0, k, t] + 1) % V
        moved = (model(changed, mask, prefix) - before).abs().amax(dim=3)[0]
        for other, frame in step:
            seen = step[other, frame] > step[k, t]
            assert (moved[other, frame] > 1e-6) if seen else (moved[other, frame] == 0), (k, t, other, frame)


@each_kind
def test_recomputed_layers_have_the_same_gradients(kinds: tuple[Any, Any], base: Path) -> None:
    (codes, mask), found = make_codes(), []
    for again in (False, True):
        model = of_kinds(base, kinds, checkpoint_layers=again)
        step_loss(model, codes, mask, prefix_of(model)).backward()
        found.append(gradients(model))
    for name, gradient in found[0].items():
        assert torch.equal(gradient, found[1][name]) and gradient.abs().sum() > 0, name


def test_recomputing_keeps_less_for_the_backward_pass(base: Path) -> None:
    def kept_bytes(again: bool) -> int:
        kept: dict[int, int] = {}

        def note(tensor: Tensor) -> Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        model = make_mot(base, checkpoint_layers=again)
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            model.hidden(make_tokens(60), prefix_of(model))
        return sum(kept.values())

    assert kept_bytes(True) < 0.5 * kept_bytes(False)


def test_the_base_goes_where_its_experts_go_and_keeps_its_precision(base: Path) -> None:
    model, tokens = make_mot(base), make_tokens(4)
    exact = model.hidden(tokens, prefix_of(model))
    assert model.double() is model and model.base.dtype == torch.float32
    precise = model.hidden(tokens, prefix_of(model))
    assert precise.dtype == torch.float64 and torch.allclose(precise.float(), exact, atol=1e-4)
    cache = model.new_cache(3, 9)
    assert cache.keys.dtype == torch.float64
    assert torch.allclose(model.hidden(tokens, prefix_of(model), cache), precise, atol=1e-5)
    model.to("meta")
    assert model.device.type == model.base.device.type == "meta"


def test_the_text_of_the_base_is_the_same_to_the_bit_after_moving(base: Path) -> None:
    model = make_mot(base)
    before = model.base.logits(ids_of().ids)
    model.half().float().double().to(torch.bfloat16)
    assert torch.equal(model.base.logits(ids_of().ids), before)


def test_training_mode_does_not_reach_the_base(base: Path) -> None:
    model = make_mot(base).train()
    assert model.training and not model.base.model.training
    assert not any(parameter.requires_grad for parameter in model.base.model.parameters())


@each_kind
def test_a_base_in_half_precision_serves_experts_in_float32(kinds: tuple[Any, Any], base: Path) -> None:
    model, (codes, mask) = of_kinds(base, kinds), make_codes()
    exact = model(codes, mask, prefix_of(model)).detach()
    spread = float(exact.std())
    model.base.model.half()
    for text in (prefix_of(model), ids_of()):
        logits = model(codes, mask, text)
        assert logits.dtype == torch.float32 and torch.allclose(logits, exact, atol=0.05 * spread + 0.02)
        logits.square().sum().backward()
        assert all(gradient.isfinite().all() and gradient.any() for gradient in gradients(model).values())
    with torch.no_grad():
        cached = model.hidden(make_tokens(3), prefix_of(model), model.new_cache(3, 8))
    assert cached.dtype == torch.float32


def test_a_model_can_be_generated_from(base: Path) -> None:
    model = make_mot(base)
    assert isinstance(model, CodesModel) and model.special == V
    assert model.layout(4).shape == (K, 4 + K - 1)


def test_guidance_reads_a_doubled_batch(base: Path) -> None:
    model, tokens = doubled(make_mot(base)), make_tokens(4)
    rows = [model.base.keys_and_values(text) for text in TEXTS]
    with_null = join_texts(rows, model.base.keys_and_values([1])).doubled_with_null()
    both = model.hidden(tokens.repeat(2, 1, 1), with_null)
    assert torch.allclose(both[:3], model.hidden(tokens, prefix_of(model)), atol=1e-10)
    assert torch.allclose(both[3:], model.hidden(tokens, prefix_of(model, [[1]] * 3)), atol=1e-10)
