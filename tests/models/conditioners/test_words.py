"""Words as a condition: what is spelled alike is alike, what was never trained says nothing."""

import pytest
import torch

from solfa.config import parse_config
from solfa.models.conditioners.words import WordConditioner, WordsConfig, rows_of, words_of


def conditioner(**settings: object) -> WordConditioner:
    torch.manual_seed(0)
    built = WordConditioner(parse_config(WordsConfig, {"kind": "words", **settings}, "test"), 8)
    torch.nn.init.normal_(built.table.weight)
    return built


def embedded(part: WordConditioner, *texts: object) -> torch.Tensor:
    return part.embed(part.tokenize(texts)).embedding


def test_words_are_compared_without_case_accents_and_repetition() -> None:
    assert words_of("A Señor's piano, a PIANO") == ["a", "senor", "s", "piano"]
    assert words_of("!!") == []


def test_a_word_shares_rows_with_words_that_are_spelled_alike() -> None:
    piano, pianos, drum = (set(rows_of(word, 2**20)) for word in ("piano", "pianos", "drum"))
    assert len(piano & pianos) >= 6 and not piano & drum
    assert len(rows_of("x" * 1000, 2**20)) < 60


def test_the_same_text_has_the_same_vectors_whatever_is_beside_it() -> None:
    part = conditioner()
    alone = part.embed(part.tokenize(["slow piano"]))
    beside = part.embed(part.tokenize(["an enormous number of words", "slow piano"]))
    assert alone.mask.tolist() == [[True, True]] and beside.mask[1].tolist() == [True, True, False, False, False]
    torch.testing.assert_close(beside.embedding[1, :2], alone.embedding[0])
    assert not beside.embedding[1, 2:].any()


@pytest.mark.parametrize("absent", [None, "", "  ", "?!"])
@pytest.mark.parametrize("fuse", ["cross", "sum", "prepend"])
def test_an_absent_text_is_zeros(absent: str | None, fuse: str) -> None:
    part = conditioner(fuse=fuse)
    found = part.embed(part.tokenize([absent]))
    assert found.embedding.shape == (1, 1, 8) and not found.embedding.any() and not found.mask.any()


def test_one_vector_for_all_words_does_not_depend_on_their_order() -> None:
    part = conditioner(fuse="sum")
    torch.testing.assert_close(embedded(part, "slow piano"), embedded(part, "piano slow"))
    assert embedded(part, "slow piano").shape == (1, 1, 8)


def test_what_was_never_trained_says_nothing() -> None:
    part = WordConditioner(parse_config(WordsConfig, {"kind": "words"}, "test"), 8)
    assert torch.equal(embedded(part, "piano"), embedded(part, "drums"))
    embedded(part, "piano").square().sum().backward()  # type: ignore[no-untyped-call]
    assert part.table.weight.grad is not None
    touched = set(part.table.weight.grad.any(dim=1).nonzero().flatten().tolist())
    assert touched == set(rows_of("piano", part.config.num_rows))


def test_long_texts_are_cut_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    part = conditioner(max_words=2)
    for _ in range(2):
        assert part.tokenize(["one two three"])["rows"].shape[1] == 2
    assert caplog.text.count("max_words") == 1
