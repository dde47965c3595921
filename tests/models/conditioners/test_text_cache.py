"""Embeddings are computed once per text, and never taken for those of another encoder."""

import logging
from pathlib import Path

import pytest
import torch

from solfa.errors import StoreError
from solfa.models.conditioners.text import TextConditioner
from solfa.models.conditioners.text_cache import FolderCache, MemoryCache, tokens_key
from tests.models.conditioners.tiny_encoders import encoded_lengths

TEXTS = ["a loud drum", "drum", "a loud drum", None, "the rain"]


def embed(conditioner: TextConditioner, texts: list[str | None] = TEXTS) -> torch.Tensor:
    with torch.no_grad():
        return conditioner.embed(conditioner.tokenize(texts)).embedding


def stored(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


def test_memory_encodes_every_text_once(t5, make_text):
    conditioner = make_text(t5)
    calls = encoded_lengths(conditioner)
    first = embed(conditioner)
    assert calls == [4, 2, 3]
    assert torch.equal(embed(conditioner), first)
    assert calls == [4, 2, 3]


def test_without_cache_every_batch_is_encoded(t5, make_text):
    conditioner = make_text(t5, cache="none")
    calls = encoded_lengths(conditioner)
    assert torch.equal(embed(conditioner), embed(conditioner))
    assert calls == [4, 2, 3, 4, 2, 3]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_folder_is_read_by_a_fresh_conditioner_that_never_loads_the_encoder(dtype, t5, make_text, tmp_path):
    cache = tmp_path / "music.text"
    first = embed(make_text(t5, cache=str(cache), cache_dtype=dtype))
    files = {path: path.stat().st_mtime_ns for path in stored(cache)}
    assert len(files) == 3
    fresh = make_text(t5, cache=str(cache), cache_dtype=dtype)
    encoded = encoded_lengths(fresh)
    assert torch.equal(embed(fresh), first), "rounding must not depend on who encoded"
    assert encoded == []
    embed(fresh, ["the loud rain"])
    assert len(encoded) == 1
    assert {path: path.stat().st_mtime_ns for path in stored(cache) if path in files} == files
    assert len(stored(cache)) == 4
    assert [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".safetensors"] == []


def test_another_encoder_tokenizer_pool_or_dtype_reads_nothing_of_it(t5, other_t5, make_text, tmp_path):
    embed(make_text(t5, cache=str(tmp_path / "cache")))
    retokenized = tmp_path / "retokenized"
    retokenized.mkdir()
    for file in t5.iterdir():
        (retokenized / file.name).write_bytes(file.read_bytes())
    settings = retokenized / "tokenizer_config.json"
    settings.write_text(settings.read_text().replace('"backend"', '"note": 1, "backend"'))
    others = [
        make_text(other_t5, cache=str(tmp_path / "cache")),
        make_text(retokenized, cache=str(tmp_path / "cache")),
        make_text(t5, cache=str(tmp_path / "cache"), pool="mean"),
        make_text(t5, cache=str(tmp_path / "cache"), cache_dtype="float16"),
    ]
    for number, other in enumerate(others, start=2):
        found = embed(other)
        assert len(stored(tmp_path / "cache")) == 3 * number
        assert torch.equal(found, embed(make_text(other.config.encoder, pool=other.config.pool))) or number == 5
    copied = tmp_path / "copied"
    copied.mkdir()
    for file in t5.iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    (copied / "README.md").write_text("a copy is the same encoder")
    same = make_text(copied, cache=str(tmp_path / "cache"))
    encoded = encoded_lengths(same)
    embed(same)
    assert encoded == []


def test_two_writers_of_one_text_agree_and_the_first_stays(tmp_path):
    caches = [FolderCache(tmp_path, "encoder") for _ in range(2)]
    key = tokens_key([1, 2, 3])
    for number, cache in enumerate(caches):
        cache.put(key, torch.full((3, 2), float(number)))
    assert [cache.get(key).sum().item() for cache in caches] == [0.0, 0.0]
    assert caches[0].get(tokens_key([1, 2])) is None


def test_damaged_file_is_named(tmp_path):
    cache = FolderCache(tmp_path, "encoder")
    key = tokens_key([1])
    cache.put(key, torch.zeros(1, 2))
    path = stored(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:9])
    with pytest.raises(StoreError, match=f"{path.name}: .*delete the file"):
        cache.get(key)


def test_full_memory_keeps_what_it_has_and_says_so_once(caplog):
    cache = MemoryCache(max_bytes=2 * 4 * 6)
    with caplog.at_level(logging.WARNING):
        for number in range(4):
            cache.put(str(number), torch.zeros(2, 3))
    assert [cache.get(str(number)) is not None for number in range(4)] == [True, True, False, False]
    assert len(caplog.records) == 1
