"""Text conditions: frozen encoders, batches that change nothing, zeros for what is absent."""

import logging
import re
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, BertModel, MusicgenForConditionalGeneration, T5EncoderModel

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.conditioners.protocol import Conditioner
from solfa.models.conditioners.text import TextConfig
from tests.models.conditioners.tiny_encoders import encoded_lengths

CAPTIONS = ["a loud drum", None, "the soft piano song of rain with a guitar", "", "drum"]
PRESENT = [0, 2, 4]


@pytest.mark.parametrize(("family", "library"), [("t5", T5EncoderModel), ("bert", BertModel)])
def test_embedding_is_what_the_library_computes_then_projected(family, library, request, make_text):
    directory = request.getfixturevalue(family)
    conditioner = make_text(directory)
    assert isinstance(conditioner, Conditioner)
    caption = "the slow guitar"
    found = conditioner.embed(conditioner.tokenize([caption]))
    with torch.no_grad():
        inputs = AutoTokenizer.from_pretrained(directory)(caption, return_tensors="pt")
        hidden = library.from_pretrained(directory).eval()(**inputs).last_hidden_state
        expected = conditioner.output_proj(hidden)
    assert torch.allclose(found.embedding, expected, atol=1e-6)
    assert found.mask.all()


@pytest.mark.parametrize("family", ["t5", "bert"])
@pytest.mark.parametrize("pool", ["tokens", "mean"])
def test_batched_equals_single(family, pool, request, make_text):
    conditioner = make_text(request.getfixturevalue(family), pool=pool)
    batched = conditioner.embed(conditioner.tokenize(CAPTIONS))
    for row in PRESENT:
        alone = make_text(request.getfixturevalue(family), pool=pool)
        single = alone.embed(alone.tokenize([CAPTIONS[row]]))
        length = single.mask.sum()
        assert batched.mask[row].sum() == length == single.mask.shape[1]
        assert torch.allclose(batched.embedding[row, :length], single.embedding[0], atol=1e-6)
        assert batched.embedding[row, length:].eq(0).all()


def test_padded_library_batch_agrees(t5, make_text):
    """The encoder masks its padding; encoding one by one is no different model."""
    conditioner = make_text(t5)
    texts = [CAPTIONS[row] for row in PRESENT]
    found = conditioner.embed(conditioner.tokenize(texts))
    inputs = AutoTokenizer.from_pretrained(t5)(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        hidden = T5EncoderModel.from_pretrained(t5).eval()(**inputs).last_hidden_state
        expected = conditioner.output_proj(hidden) * inputs["attention_mask"][..., None]
    assert torch.allclose(found.embedding, expected, atol=1e-6)
    assert torch.equal(found.mask, inputs["attention_mask"].bool())


def test_absent_and_blank_texts_are_zeros(t5, make_text):
    conditioner = make_text(t5)
    torch.nn.init.ones_(conditioner.output_proj.bias)
    found = conditioner.embed(conditioner.tokenize(CAPTIONS))
    for row in set(range(len(CAPTIONS))) - set(PRESENT):
        assert found.embedding[row].eq(0).all()
        assert not found.mask[row].any()
    assert found.embedding[0, 0].abs().sum() > 0


def test_batch_without_texts_needs_no_encoder_and_still_reaches_the_projection(t5, make_text):
    conditioner = make_text(t5)
    encoded = encoded_lengths(conditioner)
    found = conditioner.embed(conditioner.tokenize([None, ""]))
    assert found.embedding.shape == (2, 1, 16)
    assert encoded == []
    found.embedding.sum().backward()
    assert conditioner.output_proj.weight.grad is not None
    assert conditioner.output_proj.weight.grad.eq(0).all()
    assert conditioner.embed(conditioner.tokenize([])).embedding.shape == (0, 1, 16)


def test_encoder_stays_out_of_state_parameters_and_training_mode(t5, make_text):
    conditioner = make_text(t5).train()
    first = conditioner.embed(conditioner.tokenize(["a loud drum"])).embedding
    assert set(conditioner.state_dict()) == {"output_proj.weight", "output_proj.bias"}
    assert {name for name, _ in conditioner.named_parameters()} == {"output_proj.weight", "output_proj.bias"}
    assert len(list(conditioner.modules())) == 2
    # The tiny encoder has dropout 0.1: in training mode it would answer differently every time.
    fresh = make_text(t5, cache="none").train()
    fresh.embed(fresh.tokenize(["a loud drum"]))
    assert torch.equal(fresh.train().embed(fresh.tokenize(["a loud drum"])).embedding, first)


def test_embedding_is_independent_of_autocast(t5, make_text):
    conditioner, plain = make_text(t5), make_text(t5)
    tokens = conditioner.tokenize(["a loud drum"])
    with torch.autocast("cpu", dtype=torch.float16):
        conditioner.embed(tokens)
    assert torch.equal(conditioner.embed(tokens).embedding, plain.embed(tokens).embedding)


def test_loading_the_encoder_leaves_the_random_numbers_of_training_alone(bert, make_text):
    conditioner = make_text(bert)  # its pooler is missing, and transformers draws one
    tokens = conditioner.tokenize(["a loud drum"])
    encoded, before = encoded_lengths(conditioner), torch.get_rng_state()
    conditioner.embed(tokens)
    assert len(encoded) == 1
    assert torch.equal(torch.get_rng_state(), before)


def test_embeddings_cached_in_inference_mode_can_be_trained_on(t5, make_text):
    conditioner = make_text(t5)
    tokens = conditioner.tokenize(["a loud drum"])
    with torch.inference_mode():
        conditioner.embed(tokens)
    conditioner.embed(tokens).embedding.square().sum().backward()
    assert conditioner.output_proj.weight.grad.abs().sum() > 0


def test_mean_pooling_is_the_mean_of_the_tokens(bert, make_text):
    tokens, mean = make_text(bert), make_text(bert, pool="mean")
    text = ["a loud drum"]
    several = tokens.embed(tokens.tokenize(text)).embedding
    one = mean.embed(mean.tokenize(text)).embedding
    assert one.shape == (1, 1, 16)
    assert torch.allclose(one, several.mean(dim=1, keepdim=True), atol=1e-6)


def test_long_text_loses_its_end_and_that_is_said(bert, make_text, caplog):
    conditioner = make_text(bert)  # it has 12 positions
    with caplog.at_level(logging.WARNING):
        tokens = conditioner.tokenize(["drum " * 40, "drum"])
        conditioner.tokenize(["rain " * 50])
    assert tokens["mask"].sum(dim=1).tolist() == [12, 3]
    assert tokens["ids"][0, -1] == tokens["ids"][1, 2], "the end marker must survive"
    (record,) = caplog.records
    assert re.search(rf"longer than 12 tokens .*42 tokens of {repr('drum ' * 40)[:60]}$", record.message)
    assert conditioner.embed(tokens).embedding.shape == (2, 12, 16)


def test_prepended_text_has_one_length_whatever_the_batch(t5, make_text):
    conditioner = make_text(t5, fuse="prepend", max_tokens=9)
    for texts in (["drum"], [None], ["a loud drum", "drum"]):
        assert conditioner.embed(conditioner.tokenize(texts)).embedding.shape[1] == 9


def test_lists_are_joined_and_other_values_refused(t5, make_text):
    conditioner = make_text(t5, source="keywords")
    assert torch.equal(
        conditioner.tokenize([["loud", None, "drum "]])["ids"], conditioner.tokenize(["loud, drum"])["ids"]
    )
    with pytest.raises(ConfigError, match=r"text of 'keywords': .*found 7"):
        conditioner.tokenize([7])


def test_musicgen_checkpoint_gives_its_own_text_encoder(musicgen, make_text):
    conditioner = make_text(musicgen)
    model = MusicgenForConditionalGeneration.from_pretrained(musicgen).eval()
    conditioner.output_proj.load_state_dict(model.enc_to_dec_proj.state_dict())
    found = conditioner.embed(conditioner.tokenize(["a loud drum", "drum"]))
    inputs = AutoTokenizer.from_pretrained(musicgen)(["a loud drum", "drum"], return_tensors="pt", padding=True)
    with torch.no_grad():
        hidden = model.enc_to_dec_proj(model.text_encoder(**inputs).last_hidden_state)
    assert torch.allclose(found.embedding, hidden * inputs["attention_mask"][..., None], atol=1e-5)


def test_incomplete_encoder_is_refused_by_name(t5, tmp_path, make_text):
    from safetensors.torch import load_file, save_file

    for file in t5.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    del weights["encoder.final_layer_norm.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    conditioner = make_text(tmp_path)
    with pytest.raises(ConfigError, match=r"missing encoder\.final_layer_norm\.weight"):
        conditioner.embed(conditioner.tokenize(["drum"]))


def test_places_without_an_encoder_are_answered_with_one_sentence(tmp_path, make_text, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match=r"^text encoder .*no config"):
        make_text(tmp_path)
    with pytest.raises(ConfigError, match="no such directory"):
        make_text(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"nobody/nothing: .*Hub.*network.*text_small"):
        make_text("nobody/nothing")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"fuse": "sum"}, "set pool: mean"),
        ({"cache": "none", "cache_dtype": "float16"}, "cache_dtype .*cache: none"),
        ({"dropout": 1.5}, "dropout: .*found 1.5"),
        ({"pol": "mean"}, "did you mean 'pool'"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict, sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        parse_config(TextConfig, {"kind": "text", "encoder": str(Path("t5")), **settings}, "conditioner")
