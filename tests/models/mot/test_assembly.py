"""A whole model from its config: everything written, finite and reported, from real files."""

import logging
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.mot.assembly import build_mot, load_donor
from solfa.models.mot.config import MoTConfig
from tests.models.mot.tiny_mot import (
    ATTENTION,
    FFN,
    KINDS,
    LAYOUTS,
    K,
    V,
    ids_of,
    make_codes,
    make_mot,
    name_of,
    prefix_of,
    write_donor,
)
from tests.pairs import every_pair


def build(base: Path | str, donor: Path | None = None, **settings: Any) -> Any:
    values = {"base": str(base), "donor": None if donor is None else str(donor), "num_codebooks": K, "codebook_size": V}
    return build_mot(parse_config(MoTConfig, {**values, **settings}, "model"))


@pytest.mark.parametrize(
    ("donated", "attention", "ffn", "layout"),
    every_pair([False, True], ATTENTION, FFN, LAYOUTS),
    ids=lambda value: ("donor" if value else "fresh") if isinstance(value, bool) else name_of(value),
)
def test_every_parameter_is_loaded_or_initialised_and_finite(
    donated: bool, attention: Any, ffn: Any, layout: Any, base: Path, donor: Path
) -> None:
    model = make_mot(base, donor if donated else None, attention=attention, ffn=ffn, layout=layout, shaken=False)
    report = model.report
    assert set(report.origins) == {name for name, _ in model.named_parameters()}
    assert {origin.way for origin in report.origins.values()} == {"loaded", "initialised"}
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert report.num_trained + report.num_frozen == sum(parameter.numel() for parameter in model.parameters())
    zeros = {name for name, origin in report.origins.items() if origin.source == "zeros"}
    assert zeros == {name for name in report.origins if name.endswith(".up.weight")}
    assert all((model.get_parameter(name) == 0).all() for name in zeros), "nothing wrote over them"
    from_donor = {name for name, origin in report.origins.items() if origin.source.startswith("donor ")}
    assert bool(from_donor) == (donated and (ffn["kind"] == "bridge" or model.takes_tables))
    assert from_donor == {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


def test_origins_name_what_they_are_copies_of(base: Path, donor: Path) -> None:
    origins = make_mot(base, donor, attention={"kind": "copy"}, shaken=False).report.origins
    told = {name: str(origin.source) for name, origin in origins.items()}
    assert told["layers.1.input_norm.weight"] == "base layers.1.input_layernorm.weight"
    assert told["layers.2.attention.o_proj.weight"] == "base layers.2.self_attn.o_proj.weight"
    assert told["layers.1.ffn.fc1.weight"] == "donor layers.2.fc1.weight"
    assert told["layers.2.ffn.norm.bias"] == "donor layers.4.ffn_norm.bias"
    assert told["norm.weight"] == "base norm.weight"
    assert told["vocabulary.tables.tables.1.weight"] == "donor embeddings.1"
    assert told["vocabulary.heads"] == "donor heads"


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("width", [8, 40])
def test_a_donor_of_any_width_and_depth_fits(depth: int, width: int, base: Path, tmp_path: Path) -> None:
    donor = write_donor(tmp_path / "donor", num_hidden_layers=depth, hidden_size=width, ffn_dim=2 * width)
    model = build(base, donor)
    sources = [model.report.origins[f"layers.{i}.ffn.fc1.weight"].source for i in range(3)]
    wanted = {1: (0, 0, 0), 2: (0, 0, 1), 3: (0, 1, 2), 4: (0, 2, 3)}[depth]
    assert sources == [f"donor layers.{source}.fc1.weight" for source in wanted]
    codes, mask = make_codes()
    logits = model(codes, mask, prefix_of(model))
    assert logits.shape == (3, K, 5, V) and logits.isfinite().all()


@pytest.mark.parametrize("kinds", KINDS, ids=name_of)
def test_the_same_seed_builds_the_same_model(kinds: tuple[Any, Any], base: Path, donor: Path) -> None:
    states = [make_mot(base, donor, attention=kinds[0], ffn=kinds[1], shaken=False).state_dict() for _ in range(2)]
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]) if isinstance(value, torch.Tensor) else value == states[1][name]


@pytest.mark.parametrize(
    "name", ["decoder.layers.2.fc1.weight", "decoder.layers.4.final_layer_norm.bias", "decoder.embed_tokens.1.weight"]
)
def test_a_donor_with_something_that_is_no_number_is_refused(
    name: str, base: Path, donor: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(donor, broken)
    weights = load_file(broken / "model.safetensors")
    weights[f"model.{name}"].view(-1)[3] = torch.nan
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match=r"^MoT: .*NaN.* \(loaded from donor .*\)"):
        build(base, broken)


def test_a_donor_whose_codes_are_others_gives_its_layers_alone(
    base: Path, donor: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        model = build(base, donor, codebook_size=V + 1)
    assert not model.takes_tables and model.report.origins["vocabulary.heads"].way == "initialised"
    assert model.report.origins["layers.0.ffn.fc1.weight"].source == "donor layers.0.fc1.weight"
    assert re.search(f"donor .* {K} codebooks of {V} .* {K} of {V + 1}", caplog.text)


def test_a_donor_that_would_give_nothing_is_refused(base: Path, donor: Path) -> None:
    for settings in ({"codebook_size": V + 1}, {"num_codebooks": 2}, {"layout": LAYOUTS[3]}):
        with pytest.raises(ConfigError, match=r"^model\.donor: .*ffn copy .*leave the donor out"):
            build(base, donor, ffn={"kind": "copy"}, **settings)


def test_loading_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="solfa.models.mot.assembly"):
        model = build("//tiny")
    assert f"MoT on //tiny: {model.report}" in caplog.text


def test_sizes_must_be_known() -> None:
    with pytest.raises(ConfigError, match=r"num_codebooks.*codebook_size.*3.*None"):
        build("//tiny", codebook_size=None)


def test_delays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"3 codebooks, found 2 \[0, 1\]"):
        build("//tiny", layout={"kind": "delay", "delays": [0, 1]})


def test_the_hash_of_a_donor_follows_its_weights(donor: Path, tmp_path: Path) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    for directory in (same, other):
        shutil.copytree(donor, directory)
    weights = load_file(other / "model.safetensors")
    weights["model.decoder.layers.0.fc1.weight"] *= 1.01
    save_file(weights, other / "model.safetensors", metadata={"format": "pt"})
    assert load_donor(str(same)).fingerprint == load_donor(str(donor)).fingerprint
    assert load_donor(str(other)).fingerprint != load_donor(str(donor)).fingerprint


def test_a_built_model_reads_texts_both_ways(base: Path, donor: Path) -> None:
    model, (codes, mask) = build(base, donor), make_codes()
    assert torch.allclose(model(codes, mask, prefix_of(model)), model(codes, mask, ids_of()), atol=1e-4)
