"""From captions to keys and values: the same whatever else is in the batch, and wherever they are kept."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from solfa.models.mot.prefix import TextPrefix, unpadded
from solfa.models.mot.text_base import FrozenLM
from solfa.models.mot.texts import Texts, TextsConfig
from tests.models.mot.tiny_mot import fresh_base

CAPTIONS = ["a slow song", None, "drums", "  ", "a slow song"]


def make_texts(base: Path | FrozenLM, **settings: Any) -> Texts:
    frozen = fresh_base(base) if isinstance(base, Path) else base
    return Texts(TextsConfig.model_validate(settings), frozen)


def count_runs(texts: Texts) -> list[int]:
    """Collect the lengths of the texts that the real base is given."""
    runs: list[int] = []

    def note(module: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        runs.append(kwargs["input_ids"].shape[1])

    texts.base.model.model.register_forward_pre_hook(note, with_kwargs=True)
    return runs


def equal(first: TextPrefix, second: TextPrefix) -> bool:
    return all(torch.equal(getattr(first, name), getattr(second, name)) for name in ("keys", "values", "lengths"))


def test_the_template_stands_around_a_text_and_not_around_none(base: Path) -> None:
    texts = make_texts(base, template="Music: {text}. {text}!")
    ids = texts.base.tokenizer
    assert texts.tokenize("jazz") == texts.tokenize("  jazz\n") == ids("Music: jazz. jazz!")["input_ids"]
    assert texts.tokenize("{text}") == ids("Music: {text}. {text}!")["input_ids"]
    for absent in (None, "", " \n"):
        assert texts.tokenize(absent) == ids("")["input_ids"] == [1]


def test_a_template_needs_a_slot() -> None:
    with pytest.raises(ValidationError, match=r"{text} .*found 'a song'"):
        TextsConfig(template="a song")


def test_a_text_is_cut_to_its_first_tokens_and_that_is_said_once(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = make_texts(base, max_tokens=5)
    with caplog.at_level(logging.WARNING):
        assert texts.tokenize("longer than that") == texts.tokenize("longest") == texts.tokenize("long")
    (record,) = caplog.records
    assert "5 tokens" in record.message and "'longer than that'" in record.message
    assert texts.prefix(["longer than that"]).num_steps == 5


def test_a_prefix_holds_what_the_base_keeps_of_each_text(base: Path) -> None:
    texts = make_texts(base)
    prefix = texts.prefix(CAPTIONS)
    assert prefix.lengths.tolist() == [12, 1, 6, 1, 12] and prefix.num_steps == 12
    for caption, row in zip(CAPTIONS, unpadded(prefix), strict=True):
        assert torch.equal(row, texts.base.keys_and_values(texts.tokenize(caption)))


def test_ids_are_those_of_the_prefix_padded_on_the_right(base: Path) -> None:
    texts = make_texts(base)
    ids, lengths = texts.ids(CAPTIONS)
    assert torch.equal(lengths, texts.prefix(CAPTIONS).lengths) and ids.shape == (5, 12)
    for caption, row, length in zip(CAPTIONS, ids, lengths.tolist(), strict=True):
        assert row[:length].tolist() == texts.tokenize(caption) and (row[length:] == 0).all()


def test_what_is_kept_of_a_text_does_not_depend_on_the_batch(base: Path) -> None:
    texts = make_texts(base, cache="none")
    together = unpadded(texts.prefix(CAPTIONS))
    for caption, row in zip(CAPTIONS, together, strict=True):
        assert torch.equal(unpadded(texts.prefix([caption]))[0], row)


@pytest.mark.parametrize("cache_dtype", ["float32", "float16"])
def test_every_cache_gives_equal_prefixes(cache_dtype: str, base: Path, tmp_path: Path) -> None:
    expected = make_texts(base, cache="none", cache_dtype=cache_dtype).prefix(CAPTIONS)
    for cache in ("memory", "none", str(tmp_path / "kept")):
        for _ in range(2):
            texts = make_texts(base, cache=cache, cache_dtype=cache_dtype)
            assert equal(texts.prefix(CAPTIONS), expected) and equal(texts.prefix(CAPTIONS), expected)


def test_a_text_is_run_once_where_it_is_kept(base: Path, tmp_path: Path) -> None:
    for cache, again in (("memory", []), ("none", [12, 1, 6, 1, 12]), (str(tmp_path / "kept"), [])):
        texts = make_texts(base, cache=cache)
        runs = count_runs(texts)
        texts.prefix(CAPTIONS)
        assert runs == ([12, 1, 6, 1, 12] if cache == "none" else [12, 1, 6])
        runs.clear()
        texts.prefix(CAPTIONS)
        assert runs == again
    fresh = make_texts(base, cache=str(tmp_path / "kept"))
    runs = count_runs(fresh)
    fresh.prefix(CAPTIONS)
    assert runs == []


def test_halves_are_rounded_before_their_first_use(base: Path) -> None:
    texts = make_texts(base, cache_dtype="float16")
    exact = make_texts(base).prefix(CAPTIONS)
    first = texts.prefix(CAPTIONS)
    assert first.keys.dtype == torch.float32 and torch.equal(first.keys, exact.keys.half().float())
    assert torch.equal(first.values, exact.values.half().float()) and not torch.equal(first.values, exact.values)


def test_a_folder_is_not_shared_by_bases_or_precisions(base: Path, other_base: Path, tmp_path: Path) -> None:
    halved = fresh_base(base)
    halved.model.half()
    for cache_dtype in ("float32", "float16"):
        for frozen in (base, other_base, halved):
            kept = make_texts(frozen, cache=str(tmp_path), cache_dtype=cache_dtype).prefix(CAPTIONS)
            assert equal(kept, make_texts(frozen, cache="none", cache_dtype=cache_dtype).prefix(CAPTIONS))
    assert len([path for path in tmp_path.iterdir() if "-kv-" in path.name]) == 6


@pytest.mark.parametrize("cache", ["memory", "none", "folder"])
def test_a_tokenizer_that_begins_with_nothing_keeps_nothing_of_no_text(cache: str, base: Path, tmp_path: Path) -> None:
    frozen = fresh_base(base)
    tokenizer = frozen.tokenizer
    frozen.tokenizer = lambda text, verbose: {"input_ids": tokenizer(text)["input_ids"][1:]}
    texts = make_texts(frozen, cache=str(tmp_path) if cache == "folder" else cache)
    for _ in range(2):
        prefix = texts.prefix([None, "ab", ""], guided=True)
        assert prefix.lengths.tolist() == [0, 2, 0] and prefix.num_steps == 2
        assert prefix.null is not None and prefix.null.num_steps == 0
        assert prefix.doubled_with_null().lengths.tolist() == [0, 2, 0, 0, 0, 0]
    nothing = texts.prefix([None, None])
    assert nothing.num_steps == 0 and nothing.mask is None
    assert texts.ids([None, None]).ids.shape == (2, 0)


def test_guidance_moves_away_from_the_empty_text(base: Path) -> None:
    texts = make_texts(base, template="Music: {text}")
    assert texts.prefix(["jazz"]).is_none
    prefix = texts.prefix(["jazz", "rock"], guided=True)
    assert prefix.null is not None and prefix.null.lengths.tolist() == [1]
    assert equal(prefix.null, texts.prefix([None]))


def test_what_a_caller_does_to_a_prefix_does_not_reach_the_cache(base: Path) -> None:
    texts = make_texts(base)
    before = texts.prefix(["jazz"])
    texts.prefix(["jazz"]).keys.zero_()
    assert equal(texts.prefix(["jazz"]), before)
