"""Audio tokens in and out of the base's width, against one code at a time, and where the first weights come from."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from solfa.models.lm.network import inputs_and_targets
from solfa.models.mot.config import MoTConfig
from solfa.models.mot.network import MoT
from solfa.models.mot.vocabulary import OneTable, SummedTables
from solfa.ops.extended_ids import extend_ids
from solfa.ops.patterns import lay_out, steps_of, take_back
from tests.models.mot.tiny_mot import DONOR_WIDTH, LAYOUTS, K, V, fresh_base, make_codes, make_mot, name_of, read_donor

FLAT = LAYOUTS[2:]
each_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=name_of)
each_flat = pytest.mark.parametrize("layout", FLAT, ids=name_of)


def inputs_of(model: MoT, codes: Tensor) -> Tensor:
    mask = torch.ones(len(codes), codes.shape[2], dtype=torch.bool)
    return inputs_and_targets(codes, mask, model.layout(codes.shape[2]), V).inputs


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=name_of)
def test_the_codes_of_a_step_are_summed_each_from_its_own_table(layout: dict[str, Any], base: Path) -> None:
    model = make_mot(base, layout=layout)
    tokens = inputs_of(model, make_codes()[0])
    embedded = model.vocabulary.embed(tokens)
    assert isinstance(model.vocabulary.tables, SummedTables)
    for b in range(3):
        for s in range(tokens.shape[2]):
            rows = [model.vocabulary.tables.tables[k].weight[tokens[b, k, s]] for k in range(K)]
            assert torch.allclose(embedded[b, s], torch.stack(rows).sum(0), atol=1e-6)


@each_flat
def test_one_vocabulary_reads_the_extended_id_of_each_code_after_a_start(layout: dict[str, Any], base: Path) -> None:
    model, (codes, _) = make_mot(base, layout=layout), make_codes()
    offset = layout["ids"] == "offset"
    table = model.vocabulary.tables
    assert isinstance(table, OneTable) and len(table.table.weight) == (K * V if offset else V) + 1
    embedded = model.vocabulary.embed(inputs_of(model, codes))
    ids = extend_ids(codes, V, 0, offset=offset)
    for b in range(3):
        assert torch.equal(embedded[b, 0], table.table.weight[-1])
        for s in range(codes.shape[2] * K - 1):
            k, t = s % K, s // K
            assert ids[b, s] == codes[b, k, t] + (k * V if offset else 0)
            assert torch.equal(embedded[b, s + 1], table.table.weight[ids[b, s]])


@each_layout
@pytest.mark.parametrize("num_frames", [1, 2, 7])
def test_every_layout_is_taken_back(layout: dict[str, Any], num_frames: int, base: Path) -> None:
    model, (codes, _) = make_mot(base, layout=layout), make_codes(num_frames)
    laid = model.layout(num_frames)
    assert torch.equal(take_back(lay_out(codes, laid, V), laid, num_frames), codes)
    assert (
        laid.shape[1] == {"delay": num_frames + K - 1, "parallel": num_frames, "flat": num_frames * K}[layout["kind"]]
    )


@each_layout
@pytest.mark.parametrize("donated", [False, True])
def test_logits_are_products_with_the_heads_of_each_codebook(
    layout: dict[str, Any], donated: bool, base: Path, donor: Path
) -> None:
    model = make_mot(base, donor if donated else None, layout=layout)
    shared = layout.get("ids") == "shared"
    hidden = torch.randn(2, 6, 32)
    logits = model.logits(hidden)
    assert logits.shape == (2, K, 6, V), "no id of another codebook, of text, or of the special token"
    narrow = hidden if model.vocabulary.out_proj is None else hidden @ model.vocabulary.out_proj.weight.T
    for k in range(K):
        head = model.vocabulary.heads[0 if shared else k]
        assert torch.allclose(logits[:, k], narrow @ head.T, atol=1e-4)


@each_layout
@pytest.mark.parametrize("num_frames", [1, 4])
def test_the_logits_of_a_code_are_those_of_the_step_before_which_it_stands(
    layout: dict[str, Any], num_frames: int, base: Path
) -> None:
    model = make_mot(base, layout=layout)
    laid = model.layout(num_frames)
    hidden = torch.randn(2, laid.shape[1], 32)
    everything = model.logits(hidden)
    found = model.vocabulary.frame_logits(hidden, steps_of(laid, num_frames))
    for k in range(K):
        for s in range(laid.shape[1]):
            if laid[k, s] >= 0:
                assert torch.allclose(found[:, k, laid[k, s]], everything[:, k, s], atol=1e-5)


@each_layout
def test_new_rows_have_a_tenth_of_the_spread_of_the_bases(layout: dict[str, Any], base: Path) -> None:
    frozen = fresh_base(base)
    with torch.no_grad():
        frozen.model.lm_head.weight.mul_(3)
    sizes = {"num_codebooks": K, "codebook_size": 1024}
    model = MoT(MoTConfig.model_validate({"base": str(base), "layout": layout, **sizes}), frozen)
    tables = torch.cat([weight for name, weight in model.named_parameters() if "tables" in name]).detach()
    heads, texts = model.vocabulary.heads.detach(), frozen.model
    assert abs(tables.std() / (0.1 * texts.model.embed_tokens.weight.std()) - 1) < 0.03
    assert abs(heads.std() / (0.1 * texts.lm_head.weight.std()) - 1) < 0.03
    assert abs(tables.mean()) < 0.002 and abs(heads.mean()) < 0.002


@pytest.mark.parametrize("layout", LAYOUTS[:3], ids=name_of)
def test_tables_and_heads_of_a_donor_are_taken_as_they_are(layout: dict[str, Any], base: Path, donor: Path) -> None:
    model, lm = make_mot(base, donor, layout=layout, shaken=False), read_donor(donor).model
    assert model.takes_tables
    weights = [table.weight for table in lm.embeddings]
    tables = model.vocabulary.tables
    if isinstance(tables, SummedTables):
        for ours, theirs in zip(tables.tables, weights, strict=True):
            assert torch.equal(ours.weight, theirs)
    else:
        for k, theirs in enumerate(weights):
            assert torch.equal(tables.table.weight[k * V : (k + 1) * V], theirs[:V])
        assert torch.allclose(tables.table.weight[-1], torch.stack([w[V] for w in weights]).sum(0))
    for k in range(K):
        assert torch.equal(model.vocabulary.heads[k], lm.heads.weight[k * V : (k + 1) * V])


def test_one_table_for_all_codebooks_has_none_to_take(base: Path, donor: Path) -> None:
    model = make_mot(base, donor, layout=LAYOUTS[3], shaken=False)
    assert not model.takes_tables and model.vocabulary.in_proj is None and model.vocabulary.heads.shape == (1, V, 32)


@pytest.mark.parametrize("layout", LAYOUTS[:3], ids=name_of)
def test_projections_give_audio_the_spread_of_text_and_the_heads_unit_spread(
    layout: dict[str, Any], base: Path, donor: Path
) -> None:
    torch.manual_seed(0)
    model = make_mot(base, donor, layout=layout, shaken=False)
    in_proj, out_proj = model.vocabulary.in_proj, model.vocabulary.out_proj
    assert in_proj is not None and out_proj is not None
    assert in_proj.weight.shape == (32, DONOR_WIDTH) and out_proj.weight.shape == (DONOR_WIDTH, 32)
    embedded = model.vocabulary.embed(inputs_of(model, make_codes(100)[0])).detach()
    assert 0.7 < embedded.std() / model.base.embedding_std < 1.4
    assert 0.8 < (torch.randn(200, 32) @ out_proj.weight.detach().T).std() < 1.25


def test_donated_tables_and_heads_are_frozen_and_the_projections_trained(base: Path, donor: Path) -> None:
    trained = {name for name, p in make_mot(base, donor).vocabulary.named_parameters() if p.requires_grad}
    assert trained == {"in_proj.weight", "out_proj.weight"}
    everything = {name for name, p in make_mot(base, donor, train_donor=True).vocabulary.named_parameters()}
    assert everything > trained and "heads" in everything
    fresh = make_mot(base).vocabulary
    assert all(parameter.requires_grad for parameter in fresh.parameters()) and fresh.in_proj is None
