"""Labels: rows of a table, a vocabulary that travels with the checkpoint, and what happens to unknown labels."""

import io
import logging
import re

import pytest
import torch

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.conditioners.labels import UNKNOWN, LabelConditioner, LabelsConfig, labels_of
from solfa.models.conditioners.protocol import Conditioner, LearnsVocabulary

GENRES = ["rock", ["jazz", "rock"], None, "ambient", [], "rock"]


def make(vocabulary: list[str] | None = None) -> LabelConditioner:
    return parse_config(LabelsConfig, {"kind": "labels", "source": "genre", "vocabulary": vocabulary}, "test").build(6)


def fitted() -> LabelConditioner:
    conditioner = make()
    conditioner.fit(GENRES)
    return conditioner


def through_a_file(state: dict) -> dict:
    content = io.BytesIO()
    torch.save(state, content)
    content.seek(0)
    return torch.load(content, weights_only=True)


def test_vocabulary_is_the_sorted_labels_of_the_data():
    conditioner = fitted()
    assert isinstance(conditioner, Conditioner)
    assert isinstance(conditioner, LearnsVocabulary)
    assert conditioner.vocabulary == ("ambient", "jazz", "rock")
    assert conditioner.table.weight.shape == (4, 6)


def test_labels_are_texts_and_empty_ones_are_absent():
    assert labels_of(["b", None, " a ", "", "b"]) == ["a", "b"]
    assert labels_of(4) == ["4"]
    assert labels_of(None) == labels_of("") == labels_of([]) == []


def test_embedding_is_the_mean_of_the_rows_and_zero_when_absent():
    conditioner = fitted()
    found = conditioner.embed(conditioner.tokenize(GENRES))
    ambient, jazz, rock = conditioner.table.weight[1:]
    zero = torch.zeros(6)
    expected = torch.stack([rock, (jazz + rock) / 2, zero, ambient, zero, rock])[:, None]
    assert torch.allclose(found.embedding, expected)
    assert found.mask[:, 0].tolist() == [True, True, False, True, False, True]


def test_batch_without_labels_gives_zero_gradients():
    conditioner = fitted()
    conditioner.embed(conditioner.tokenize([None, None])).embedding.sum().backward()
    assert conditioner.table.weight.grad.eq(0).all()
    assert conditioner.embed(conditioner.tokenize([])).embedding.shape == (0, 1, 6)


def test_checkpoint_restores_the_vocabulary_without_the_data():
    conditioner = fitted()
    state = through_a_file(conditioner.state_dict())
    restored = make()
    restored.load_state_dict(state)
    assert restored.vocabulary == conditioner.vocabulary
    tokens = restored.tokenize(GENRES)
    assert torch.equal(restored.embed(tokens).embedding, conditioner.embed(tokens).embedding)


def test_same_vocabulary_loads_in_place():
    conditioner, again = fitted(), fitted()
    parameter = again.table.weight
    again.load_state_dict(through_a_file(conditioner.state_dict()))
    assert again.table.weight is parameter
    assert torch.equal(parameter, conditioner.table.weight)


def test_new_labels_are_refused_by_name_in_either_order():
    state = fitted().state_dict()
    restored = make()
    restored.load_state_dict(state)
    restored.fit(["rock"])
    with pytest.raises(ConfigError, match=r"'polka', 'ska' are .*vocabulary"):
        restored.fit(["rock", "ska", "polka"])
    grown = make()
    grown.fit(["ska", *GENRES])
    with pytest.raises(ConfigError, match=r"'ska' is .*vocabulary"):
        grown.load_state_dict(state)
    smaller = make()
    smaller.fit(["rock"])
    with pytest.raises(ConfigError, match=r"vocabulary: \[ambient, jazz, rock\]"):
        smaller.load_state_dict(state)


def test_unknown_labels_share_a_row_and_are_named_once(caplog):
    conditioner = fitted()
    with caplog.at_level(logging.WARNING):
        tokens = conditioner.tokenize(["rok", "rok", "xyz"])
        conditioner.tokenize(["rok"])
    assert tokens["rows"].tolist() == [[UNKNOWN]] * 3
    near, far = (record.message for record in caplog.records)
    assert re.search("'genre': 'rok' .*did you mean 'rock'", near)
    assert "'genre': 'xyz' " in far and "did you mean" not in far
    found = conditioner.embed(tokens)
    assert found.embedding.eq(0).all(), "nothing trained that row"
    assert found.mask.all()


def test_given_vocabulary_needs_no_data_and_is_checked():
    conditioner = make(["rock", "jazz"])
    assert not conditioner.learns
    assert conditioner.tokenize(["jazz", "polka"])["rows"].tolist() == [[2], [UNKNOWN]]
    for wrong in ([], ["rock", "rock"]):
        with pytest.raises(ConfigError, match="at least one label"):
            make(wrong)


def test_missing_vocabulary_and_missing_column_are_one_sentence():
    with pytest.raises(ConfigError, match=r"labels of 'genre': .*vocabulary"):
        make().tokenize(["rock"])
    with pytest.raises(ConfigError, match=r"labels of 'genre': .*column"):
        make().fit([None, [], ""])
