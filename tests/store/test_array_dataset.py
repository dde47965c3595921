"""Appending arrays: repeatable, never mixing settings, never storing a clip twice."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from store_maker import MADE_BY, MORE, SMALL, build, codes_spec, info_of, make_outcomes, tree

from solfa.errors import StoreError
from solfa.store.array_dataset import append_arrays
from solfa.store.dataset import open_dataset
from solfa.store.verification import verify


def test_repeating_a_finished_call_changes_nothing(small: Path) -> None:
    before = tree(small)
    assert build(small, SMALL) == small
    assert tree(small) == before


def test_appending_adds_files_and_changes_none(small: Path, tmp_path: Path) -> None:
    before = tree(small)
    build(small, MORE)
    after = tree(small)
    assert {name: after[name] for name in before} == before
    assert after == tree(build(build(tmp_path / "other", SMALL), MORE))
    assert len(open_dataset(small)) == 10
    assert verify(small).problems == []


@pytest.mark.parametrize("spec", [codes_spec(5), codes_spec(4, "uint32"), codes_spec(4, codebook_size=1024)])
def test_other_settings_are_refused_and_nothing_changes(small: Path, spec: object) -> None:
    before = tree(small, temporary=True)
    with pytest.raises(StoreError, match=r"other settings \(fingerprint \w+"):
        append_arrays(small, info_of(spec), SMALL, MADE_BY)  # type: ignore[arg-type]
    assert tree(small, temporary=True) == before


def test_two_builders_at_once_give_the_tree_of_one(tmp_path: Path) -> None:
    outcomes = make_outcomes(codes_spec(), [3] * 12)
    alone = build(tmp_path / "alone", outcomes)
    for attempt in range(2):
        root = tmp_path / f"together{attempt}"
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _, root=root: build(root, outcomes), range(3)))
        assert tree(root) == tree(alone)
        assert verify(root).problems == []
