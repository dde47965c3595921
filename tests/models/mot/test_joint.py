"""Text and audio as one sequence: the base's own text, and the same audio by every way of routing."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from solfa.models.lm.network import inputs_and_targets
from solfa.models.mot.joint import MixedSequence, text_then_audio
from solfa.models.mot.network import MoT
from solfa.models.mot.routing import IndexRouting, SliceRouting
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
    train,
)

each_kind = pytest.mark.parametrize("kinds", KINDS, ids=name_of)
IDS = torch.tensor([[1, 70, 71, 72, 73, 120, 9], [1, 33, 34, 250, 36, 7, 8]])


def of_kinds(base: Path, kinds: tuple[Any, Any], donor: Path | None = None, **settings: Any) -> MoT:
    return make_mot(base, donor, attention=kinds[0], ffn=kinds[1], **settings)


def only_text(routed: str, ids: Tensor = IDS) -> MixedSequence:
    """A batch without audio."""
    positions, real = torch.arange(ids.shape[1]).expand(len(ids), -1), torch.ones_like(ids, dtype=torch.bool)
    if routed == "slices":
        nothing = torch.zeros(len(ids), K, 0, dtype=torch.int64)
        return MixedSequence(ids, nothing, positions, real, SliceRouting(ids.shape[1]))
    nothing = torch.zeros(1, K, 0, dtype=torch.int64)
    return MixedSequence(ids.flatten(), nothing, positions, real, IndexRouting.of(real, ~real))


def text_logits(model: MoT, sequence: MixedSequence) -> Tensor:
    with torch.no_grad():
        return model.text_logits(model.forward_joint(sequence).text).view(*sequence.real.shape, -1)


def indexed(sequence: MixedSequence) -> MixedSequence:
    """The same sequence by index, padding belonging to nobody."""
    num_text = sequence.text.shape[1]
    first = torch.arange(sequence.real.shape[1]) < num_text
    index = IndexRouting.of(sequence.real & first, sequence.real & ~first)
    audio = sequence.audio.permute(1, 0, 2).flatten(1)[None]
    return sequence._replace(text=sequence.text[sequence.real[:, :num_text]], audio=audio, routing=index)


@pytest.mark.parametrize("routed", ["slices", "index"])
@pytest.mark.parametrize("base_name", ["base", "biased_base"])
def test_text_alone_has_the_logits_of_transformers_to_the_bit(
    routed: str, base_name: str, request: pytest.FixtureRequest, donor: Path
) -> None:
    directory = request.getfixturevalue(base_name)
    model, theirs = make_mot(directory, donor), their_model(directory)
    for ids in (IDS, IDS[:1], IDS[:, :1]):
        with torch.no_grad():
            expected = theirs(ids).logits
        assert torch.equal(text_logits(model, only_text(routed, ids)), expected)


def test_training_leaves_text_as_it_was_to_the_bit(base: Path, donor: Path) -> None:
    model = make_mot(base, donor, train_donor=True, shaken=False)
    train(model, 10)
    with torch.no_grad():
        expected = their_model(base)(IDS).logits
    for routed in ("slices", "index"):
        assert torch.equal(text_logits(model, only_text(routed)), expected)
    assert torch.equal(model.base.logits(IDS), expected)


def test_text_before_audio_has_the_logits_of_text_alone(base: Path) -> None:
    model, sequence = make_mot(base), text_then_audio(*ids_of(), make_tokens(6))
    for routed in (sequence, indexed(sequence)):
        with torch.no_grad():
            found = model.text_logits(model.forward_joint(routed).text)
        rows = found if found.ndim == 3 else found.split([len(text) for text in TEXTS])
        for text, row in zip(TEXTS, rows, strict=True):
            assert torch.allclose(row[: len(text)], model.base.logits(torch.tensor([text]))[0], atol=1e-4)


def test_text_is_followed_by_audio_at_the_next_position() -> None:
    sequence = text_then_audio(*ids_of(room=1), make_tokens(2))
    assert sequence.positions.tolist() == [
        [0, 1, 2, 3, 4, 5, 5, 6],
        [0, 1, 2, 3, 4, 5, 2, 3],
        [0, 1, 2, 3, 4, 5, 4, 5],
    ]
    assert sequence.real.tolist() == [
        [True] * 5 + [False] + [True] * 2,
        [True] * 2 + [False] * 4 + [True] * 2,
        [True] * 4 + [False] * 2 + [True] * 2,
    ]
    assert sequence.routing == SliceRouting(6)


@each_kind
def test_slices_an_index_and_a_prefix_give_the_same_audio_and_gradients(
    kinds: tuple[Any, Any], base: Path, donor: Path
) -> None:
    model, tokens = doubled(of_kinds(base, kinds, donor, train_donor=True)), make_tokens(6)
    sequence, weight = text_then_audio(*ids_of(room=2), tokens), torch.randn(3, 6, 32, dtype=torch.float64)

    def run(hidden: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        # Each squared, so that every gradient depends on the numbers, too.
        (hidden.square() * weight).sum().backward()
        return hidden.detach(), gradients(model)

    prefixed = run(model.hidden(tokens, prefix_of(model)))
    sliced = run(model.forward_joint(sequence).audio)
    by_index = run(model.forward_joint(indexed(sequence)).audio.view(3, 6, 32))
    unseen = {"vocabulary.heads", "vocabulary.out_proj.weight"}
    for hidden, found in (sliced, by_index):
        assert torch.allclose(hidden, prefixed[0], atol=1e-10)
        for name, gradient in prefixed[1].items():
            assert gradient.any() != (name in unseen), name
            assert torch.allclose(found[name], gradient, atol=1e-10, rtol=1e-10), name


@pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
def test_a_prefix_without_a_graph_gives_the_gradients_of_one_with_it(layout: dict[str, Any], base: Path) -> None:
    model, (codes, _) = doubled(make_mot(base, layout=layout)), make_codes()
    mask = torch.arange(5) < torch.tensor([[5], [3], [4]])
    found = []
    for text in (prefix_of(model), ids_of()):
        loss = step_loss(model, codes, mask, text)
        loss.backward()
        found.append((loss.detach(), gradients(model)))
    # The loss itself is taken in float32.
    assert torch.allclose(found[0][0], found[1][0], atol=1e-6)
    for name, gradient in found[0][1].items():
        assert gradient.any() and torch.allclose(found[1][1][name], gradient, atol=1e-7), name


def story(model: MoT, tokens: Tensor, text: Tensor) -> MixedSequence:
    """Text, audio, text, audio in one row, and audio, text in another with padding at its end."""
    kinds = ["TTTAAATTTTAA", "AAATTTT....."]
    is_text = torch.tensor([[kind == "T" for kind in row] for row in kinds])
    is_audio = torch.tensor([[kind == "A" for kind in row] for row in kinds])
    positions = torch.arange(12).expand(2, -1)
    return MixedSequence(text, tokens, positions, is_text | is_audio, IndexRouting.of(is_text, is_audio))


def slowly(model: MoT, sequence: MixedSequence) -> dict[tuple[int, int], Tensor]:
    """One place at a time, each attending all real places before it: by row and place, what its head reads."""
    index, base = sequence.routing, model.base
    assert isinstance(index, IndexRouting)
    x: dict[tuple[int, int], Tensor] = {}
    text = set()
    for place, ids in zip(index.text.tolist(), sequence.text, strict=True):
        x[divmod(place, 12)] = base.embed(ids)
        text.add(divmod(place, 12))
    for column, place in enumerate(index.audio.tolist()):
        x[divmod(place, 12)] = model.vocabulary.embed(sequence.audio[:, :, column, None])[0, 0]
    cos, sin = base.rotation(torch.zeros(1, 1, 32), sequence.positions)

    def turn(head: Tensor, row: int, place: int) -> Tensor:
        return head * cos[row, place] + torch.cat([-head[4:], head[:4]]) * sin[row, place]

    for own, layer in zip(base.layers, model.layers, strict=True):
        projected = {}
        for at, vector in x.items():
            attention, normed = own.self_attn, own.input_layernorm(vector)
            mine = (attention.q_proj(normed), attention.k_proj(normed), attention.v_proj(normed))
            projected[at] = mine if at in text else layer.project(vector, own)
        for row, place in list(x):
            before = [at for at in sorted(projected) if at[0] == row and at[1] <= place]
            heads = []
            for h in range(4):
                query = turn(projected[row, place][0].view(4, 8)[h], row, place)
                keys = torch.stack([turn(projected[at][1].view(2, 8)[h // 2], *at) for at in before])
                values = torch.stack([projected[at][2].view(2, 8)[h // 2] for at in before])
                heads.append((keys @ query / 8**0.5).softmax(0) @ values)
            mixed, vector = torch.cat(heads), x[row, place]
            if (row, place) in text:
                vector = vector + own.self_attn.o_proj(mixed)
                x[row, place] = vector + own.mlp(own.post_attention_layernorm(vector))
            else:
                x[row, place] = layer.finish(vector, mixed, own)
    return {at: base.model.model.norm(vector) if at in text else model.norm(vector) for at, vector in x.items()}


@each_kind
def test_any_order_of_text_and_audio_equals_one_place_at_a_time(kinds: tuple[Any, Any], base: Path) -> None:
    model = of_kinds(base, kinds)
    sequence = story(model, make_tokens(8, batch=1), torch.randint(3, 259, (11,)))
    with torch.no_grad():
        found, expected = model.forward_joint(sequence), slowly(model, sequence)
    index = sequence.routing
    assert isinstance(index, IndexRouting)
    for places, vectors in ((index.text, found.text), (index.audio, found.audio)):
        for place, vector in zip(places.tolist(), vectors, strict=True):
            assert torch.allclose(vector, expected[divmod(place, 12)], atol=1e-4)


def test_text_after_audio_depends_on_it_and_sends_gradients_to_its_experts(base: Path) -> None:
    model, tokens, text = make_mot(base), make_tokens(8, batch=1), torch.randint(3, 259, (11,))
    logits = model.text_logits(model.forward_joint(story(model, tokens, text)).text)
    changed = tokens.clone()
    changed[0, :, 1] = (changed[0, :, 1] + 1) % (V + 1)
    other = model.text_logits(model.forward_joint(story(model, changed, text)).text)
    moved = (other - logits).abs().amax(dim=1)
    assert (moved[:3] == 0).all() and (moved[3:7] > 1e-4).all() and (moved[7:] == 0).all()
    logits[3:7].square().sum().backward()
    # Of the last layer only keys and values are attended by text; nothing reads what its audio becomes.
    last = ("layers.2.attention.q_proj", "layers.2.attention.o_proj", "layers.2.post_norm", "layers.2.ffn")
    for name, gradient in gradients(model).items():
        assert gradient.any() != name.startswith((*last, "norm", "vocabulary.heads")), name


@pytest.mark.parametrize("place", range(12))
def test_a_later_place_changes_nothing_before_it(place: int, base: Path) -> None:
    model, tokens, text = make_mot(base), make_tokens(8, batch=1), torch.randint(3, 259, (11,))
    sequence = story(model, tokens, text)
    index = sequence.routing
    assert isinstance(index, IndexRouting)
    if place in index.text.tolist():
        text = text.clone()
        text[index.text.tolist().index(place)] = 1
    else:
        tokens = tokens.clone()
        column = index.audio.tolist().index(place)
        tokens[0, :, column] = (tokens[0, :, column] + 1) % (V + 1)
    with torch.no_grad():
        before, after = model.forward_joint(sequence), model.forward_joint(story(model, tokens, text))
    for places, old, new in ((index.text, before.text, after.text), (index.audio, before.audio, after.audio)):
        moved = (new - old).abs().amax(dim=1)
        assert (moved[(places < place) | (places >= 12)] == 0).all()
        assert (moved[(places >= place) & (places < 12)] > 1e-5).all()


@pytest.mark.parametrize("routed", ["slices", "index"])
def test_a_batch_without_text_is_audio_alone(routed: str, base: Path) -> None:
    model, tokens = make_mot(base), make_tokens(6)
    sequence = text_then_audio(*ids_of([[], [], []]), tokens)
    found = model.forward_joint(sequence if routed == "slices" else indexed(sequence)).audio.view(3, 6, 32)
    assert torch.allclose(found, model.hidden(tokens, prefix_of(model, [[], [], []])), atol=1e-5)


@pytest.mark.parametrize("routed", ["slices", "index"])
def test_padding_of_any_content_changes_nothing(routed: str, base: Path) -> None:
    model, tokens = make_mot(base), make_tokens(4)
    found = []
    for padding in (0, 200):
        sequence = text_then_audio(*ids_of(room=3, padding=padding), tokens)
        found.append(model.forward_joint(sequence if routed == "slices" else indexed(sequence)))
    assert torch.equal(found[0].audio, found[1].audio) and not found[0].audio.isnan().any()
    real = ids_of(room=3).ids != 0 if routed == "slices" else slice(None)
    assert torch.equal(found[0].text[real], found[1].text[real])


def test_inputs_of_training_are_the_special_token_and_then_the_codes(base: Path) -> None:
    model, (codes, mask) = make_mot(base), make_codes()
    inputs = inputs_and_targets(codes, mask, model.layout(5), V).inputs
    hidden = model.forward_joint(text_then_audio(*ids_of(), inputs)).audio
    logits, everything = model(codes, mask, ids_of()), model.logits(hidden)
    for k in range(K):
        assert torch.allclose(logits[:, k], everything[:, k, k : k + 5], atol=1e-5)
