"""Training steps: no graph from one to the next, gradients through all of a clip, and a base that stays as it is."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from solfa.models.mot.network import MoT
from tests.models.mot.tiny_mot import (
    KINDS,
    V,
    doubled,
    gradients,
    ids_of,
    make_codes,
    make_mot,
    name_of,
    prefix_of,
    step_loss,
    their_model,
    train,
)

each_kind = pytest.mark.parametrize("kinds", KINDS, ids=name_of)


@each_kind
def test_ten_steps_in_a_row_train_and_leave_the_base_unchanged_to_the_bit(
    kinds: tuple[Any, Any], base: Path, donor: Path
) -> None:
    model = make_mot(base, donor, attention=kinds[0], ffn=kinds[1], shaken=False)
    frozen = {name: parameter.clone() for name, parameter in model.named_parameters() if not parameter.requires_grad}
    losses = train(model, 10)
    assert losses[-1] < 0.8 * losses[0] and losses == sorted(losses, reverse=True)
    theirs = their_model(base).state_dict()
    assert all(torch.equal(weight, theirs[name]) for name, weight in model.base.model.state_dict().items())
    assert frozen, "tables and heads are the donor's"
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad != (name in frozen)
        assert parameter.requires_grad or torch.equal(parameter, frozen[name])
    assert all(parameter.grad is None for parameter in model.base.model.parameters())


def test_one_prefix_serves_many_steps(base: Path) -> None:
    model, (codes, mask) = make_mot(base), make_codes()
    prefix, found = prefix_of(model), []
    for _ in range(3):
        step_loss(model, codes, mask, prefix).backward()
        found.append(gradients(model))
    assert not prefix.keys.requires_grad
    for name, gradient in found[0].items():
        assert torch.equal(gradient, found[1][name]) and torch.equal(gradient, found[2][name])


@pytest.mark.parametrize("with_graph", [False, True], ids=["prefix", "ids"])
@each_kind
def test_the_loss_of_the_last_position_reaches_the_embedding_of_the_first(
    kinds: tuple[Any, Any], with_graph: bool, base: Path
) -> None:
    settings = {"attention": kinds[0], "ffn": kinds[1], "layout": {"kind": "parallel"}}
    model, (codes, mask) = doubled(make_mot(base, **settings)), make_codes(7)
    text = ids_of() if with_graph else prefix_of(model)
    row: Tensor = model.vocabulary.tables.tables[1].weight

    def last() -> Tensor:
        return -model(codes, mask, text)[:, :, -1].log_softmax(dim=-1).gather(-1, codes[:, :, -1:]).sum()

    last().backward()
    assert row.grad is not None
    exact = row.grad[V].clone()
    assert exact.abs().min() > 1e-6, "the special token stands at the first step only"
    with torch.no_grad():
        for place in (0, 13, 31):
            values = []
            for move in (1e-6, -2e-6):
                row[V, place] += move
                values.append(last())
            row[V, place] += 1e-6
            slope = (values[0] - values[1]) / 2e-6
            assert abs(slope - exact[place]) < 1e-6 + 1e-4 * exact.abs().max()


def reached(model: MoT, codes: Tensor, mask: Tensor, prefix: Any, optimizer: torch.optim.Optimizer) -> set[str]:
    """Take a step; name the parameters whose gradient was not zero."""
    optimizer.zero_grad()
    step_loss(model, codes, mask, prefix).backward()
    named = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    assert all(gradient is not None and gradient.isfinite().all() for gradient in named.values())
    found = {name for name, gradient in named.items() if gradient is not None and gradient.any()}
    optimizer.step()
    return found


def behind_zero(name: str, kinds: tuple[Any, Any]) -> bool:
    """Whether a parameter's only way to the loss leads through a matrix that starts at zero."""
    if kinds[1]["kind"] == "bridge" and (".post_norm." in name or (".ffn." in name and ".ffn.up." not in name)):
        return True
    return name.endswith(".down.weight") and ".ffn.down." not in name


@each_kind
def test_all_that_is_trained_has_a_gradient_at_the_latest_in_the_second_step(
    kinds: tuple[Any, Any], base: Path, donor: Path
) -> None:
    model = make_mot(base, donor, attention=kinds[0], ffn=kinds[1], train_donor=True, shaken=False)
    (codes, mask), prefix = make_codes(12), prefix_of(model)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    first = reached(model, codes, mask, prefix, optimizer)
    assert first == {name for name in trained if not behind_zero(name, kinds)}
    assert reached(model, codes, mask, prefix, optimizer) == trained
