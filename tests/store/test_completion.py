"""Manifests: one per finished state, numbered, never falling back."""

from pathlib import Path

import pytest
from store_maker import MORE, build, tree

from solfa.store.completion import finish
from solfa.store.layout import create_numbered_manifest, manifests, read_manifest


def test_finishing_twice_changes_nothing(small: Path) -> None:
    before = tree(small)
    first = finish(small)
    assert first == finish(small) == read_manifest(small, 1)
    assert tree(small) == before


def test_with_a_shard_missing_nothing_is_pinned(small: Path) -> None:
    (small / "manifest" / "000001.json").unlink()
    (small / "commit" / "00001.json").unlink()
    assert finish(small) is None
    assert manifests(small) == []


def test_the_digest_is_of_the_content_and_not_of_the_number(small: Path) -> None:
    manifest = read_manifest(small, 1)
    assert manifest.model_copy(update={"number": 7}).digest == manifest.digest
    assert manifest.model_copy(update={"commits": manifest.commits[:2]}).digest != manifest.digest


@pytest.mark.parametrize("seen", [[], [1], [1, 2]])
def test_a_slow_process_does_not_pin_less_than_a_faster_one_did(small: Path, seen: list[int]) -> None:
    slow = read_manifest(small, 1)
    build(small, MORE)
    # As if it had looked for manifests before the faster one pinned its own.
    found = create_numbered_manifest(small, seen, lambda number: slow.model_copy(update={"number": number}))
    assert found == read_manifest(small, found.number) and manifests(small) == [1, 2]
    assert found.number == 2 or seen == [1]  # who sees only its own needs no other
